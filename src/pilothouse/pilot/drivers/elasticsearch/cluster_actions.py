"""What the leading pilot has to do for its whole cluster: a pure decision over what Elasticsearch and the Pilots say.

    for action in cluster_actions(prefix, pilots, state, settings, (8, 17), release=True): ...

* The names of decommissioned nodes are in the allocation exclusion, those of masters also in the voting exclusions (7 and later); names that are no
  longer to go, or whose Pilot is gone, are taken out. Names that are not of this cluster's nodes are a person's, and stay.
* Beside the exclusion stands which decommission of each node it is for (``DECOMMISSIONS``), written with it in one stroke. So a pilot knows that an exclusion
  is not what is left of an earlier decommission, about to be taken back by a leader that lags behind; and a leader that finds a later decommission there
  than it has seen itself knows that it is the one who lags, and leaves that node alone.
* Before a node stops, its pilot holds replicas back, and gives the node's vote away if it is the only one. Both are taken back once all nodes are in that
  should be, or one has been missed for long.
* The number of masters that have to see each other (up to 6) is what the Pilots that stay say, and no more than there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.applications.elasticsearch_application import MINIMUM_MASTERS
from pilothouse.api.objects import Object, Tree
from pilothouse.pilot.drivers.elasticsearch.cluster_state import ClusterState

EXCLUDED: Final = "cluster.routing.allocation.exclude._name"
DECOMMISSIONS: Final = "cluster.metadata.pilothouse_decommissions"
"""Elasticsearch keeps what is under ``cluster.metadata`` for whoever puts it there."""
ALLOCATION: Final = "cluster.routing.allocation.enable"
HELD_BACK: Final = "primaries"
ALL_IN: Final = 5.0
"""Seconds for which all nodes must have been in before what one did to stop is taken back. One that is about to stop has told so by then."""
MISSED: Final = 120.0
"""Seconds after which a node that is missed is not waited for any longer: copies of what it has are better built elsewhere."""

STILL: Final = 15.0
"""Seconds in which no shard moves off a node that is to go, before Elasticsearch is asked to look again."""

UNSEEN: Final = 30.0
"""Seconds between two looks after which nothing is known of the time between them: somebody else led, or the cluster did not answer."""


class SetSettings(msgspec.Struct, frozen=True):
    """Change settings of the whole cluster; None takes one back."""

    settings: Mapping[str, Any]


class ExcludeVoters(msgspec.Struct, frozen=True):
    names: tuple[str, ...]


class IncludeVoters(msgspec.Struct, frozen=True):
    """Take all voting exclusions back."""


Act = SetSettings | ExcludeVoters | IncludeVoters


def settings_in_force(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Those that were set while it ran, flat; what is transient wins."""
    return {**(answer.get("persistent") or {}), **(answer.get("transient") or {})}


def cluster_actions(
    prefix: str,
    pilots: Sequence[Object],
    state: ClusterState,
    settings: Mapping[str, Any],
    version: tuple[int, int],
    *,
    release: bool,
) -> Iterator[Act]:
    """``prefix`` is what the names of this cluster's nodes begin with. ``release``: what nodes did before they stopped may be taken back."""
    going = _going(pilots, settings)
    changes = dict(_exclusion(prefix, going, settings))
    if settings.get(ALLOCATION) == HELD_BACK and release:
        changes[ALLOCATION] = None
    if version < (7, 0):
        changes |= dict(_minimum_masters(pilots, state, settings))
    if changes:
        yield SetSettings(changes)
    if version >= (7, 0):
        yield from _voters(prefix, pilots, going, state, release=release)


def held(
    prefix: str, pilots: Sequence[Object], state: ClusterState, settings: Mapping[str, Any]
) -> frozenset[str]:
    """What is as it is only for nodes to stop: replicas that are held back, votes that are given away."""
    replicas = {ALLOCATION} if settings.get(ALLOCATION) == HELD_BACK else set()
    return frozenset(replicas | without_vote(prefix, pilots, state, settings))


def without_vote(
    prefix: str, pilots: Sequence[Object], state: ClusterState, settings: Mapping[str, Any]
) -> set[str]:
    """The nodes that gave their vote away to stop, and have not got it back: until they have, the other can't give its own to them."""
    return _ours(prefix, state) - _going(pilots, settings).keys()


def decommission(uid: str, generation: int) -> str:
    """By which one decommission of a Pilot is told from another."""
    return f"{uid}/{generation}"


def decommissions(settings: Mapping[str, Any]) -> dict[str, str]:
    """For which decommission each node is excluded, by its name."""
    found = (each.partition("=") for each in str(settings.get(DECOMMISSIONS) or "").split(","))
    return {name: said for name, _, said in found if name}


def are_all_in(pilots: Collection[Object], state: ClusterState) -> bool:
    """Whether every node that should be there is, and none is about to stop."""
    names = set(state.names.values())
    expected = [each for each in pilots if not _leaves(each) and not _is_without_pod(each)]
    return all(each.name in names and each.at("status", "phase") == "Running" for each in expected)


class MembershipTimer:
    """For how long all nodes have been in, or one has been missed, since somebody last got ready to stop."""

    def __init__(self) -> None:
        self._seen: tuple[bool, frozenset[str]] | None = None
        self._since = self._looked = 0.0

    def suffices(self, all_in: bool, held: frozenset[str], now: float) -> bool:
        """Whether what is held may be let go: everybody is here to stay, or somebody is not coming back soon."""
        if (all_in, held) != self._seen or now - self._looked > UNSEEN:
            self._seen, self._since = (all_in, held), now
        self._looked = now
        return now - self._since >= (ALL_IN if all_in else MISSED)


class DrainProgress:
    """Whether shards that are to leave their nodes have stopped moving, so that Elasticsearch has to be asked to look again.

    It moves shards when the cluster's state changes, and under load it may miss the last of these changes: shards then stay, though they may move.
    """

    def __init__(self) -> None:
        self._seen: Mapping[str, int] = {}
        self._since = 0.0

    def stands_still(self, left: Mapping[str, int], *, moving: bool, now: float) -> bool:
        """True once every ``STILL`` seconds in which nothing moves. ``left`` is how many shards each node that is to go has."""
        if not left or moving or left != self._seen:
            self._seen, self._since = dict(left), now
            return False
        if now - self._since < STILL:
            return False
        self._since = now
        return True


def shards_left(pilots: Sequence[Object], state: ClusterState, settings: Mapping[str, Any]) -> dict[str, int]:
    """How many shards the nodes have that are to go, of those that have some."""
    going = _going(pilots, settings)
    found = {name: state.shards.get(id, 0) for id, name in state.names.items() if name in going}
    return {name: count for name, count in found.items() if count}


def gives_vote_away(id: str, masters: Collection[str], state: ClusterState) -> bool:
    """Whether a node that stops has the only vote, as one of two masters has, though there is another that could have it.

    Without a master nothing can be written until it is back; and one that comes back alone, with a later version, forms a cluster that the other, with
    the earlier one, can't join. Of several votes none is given away: it would be missed if those that have the rest were lost."""
    others = {each for each in masters if state.names.get(each, "") not in state.excluded_voters} - {id}
    return state.voters == {id} and bool(others)


def members(pilots: Collection[Object], state: ClusterState) -> dict[str, str]:
    """The nodes that see each other, with the start of each that its pilot vouches for."""
    started = {
        each.name: str(each.at("status", "lastStartedTime") or "") for each in pilots if each.is_true("Ready")
    }
    return {name: started.get(name, "") for name in sorted(state.names.values())}


def _exclusion(
    prefix: str, going: Mapping[str, str], settings: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    present = [name for name in str(settings.get(EXCLUDED) or "").split(",") if name]
    foreign = [name for name in present if not name.startswith(prefix)]
    wanted = sorted({*foreign, *going})
    if wanted != sorted(present) or decommissions(settings) != going:
        yield EXCLUDED, ",".join(wanted) or None
        yield DECOMMISSIONS, ",".join(f"{name}={said}" for name, said in sorted(going.items())) or None


def _going(pilots: Sequence[Object], settings: Mapping[str, Any]) -> dict[str, str]:
    """Those that are to leave, each with the decommission that says so."""
    said = decommissions(settings)
    going = {each.name: decommission(each.uid, each.generation) for each in pilots if _leaves(each)}
    return going | {each.name: said[each.name] for each in pilots if _is_behind(each, said.get(each.name))}


def _is_behind(pilot: Object, said: str | None) -> bool:
    """Whether somebody has led who saw a later Pilot than this."""
    uid, _, generation = (said or "").rpartition("/")
    return uid == pilot.uid and generation.isdigit() and int(generation) > pilot.generation


def _voters(
    prefix: str, pilots: Sequence[Object], going: Collection[str], state: ClusterState, *, release: bool
) -> Iterator[Act]:
    masters = [each for each in pilots if "master" in _roles(each)]
    wanted = {each.name for each in masters if each.name in going}
    if wanted and len(wanted) == len(masters):
        # Somebody has to be left who can vote.
        return
    ours = _ours(prefix, state)
    if ours - wanted and release:
        yield IncludeVoters()
        missing = wanted | (state.excluded_voters - ours)
    else:
        missing = wanted - state.excluded_voters
    if missing:
        yield ExcludeVoters(tuple(sorted(missing)))


def _ours(prefix: str, state: ClusterState) -> set[str]:
    """This cluster's nodes without a vote."""
    return {name for name in state.excluded_voters if name.startswith(prefix)}


def _minimum_masters(
    pilots: Sequence[Object], state: ClusterState, settings: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    # One that is to go, or has gone and is not forgotten yet, has no say in how many of the others are enough.
    staying = [each for each in pilots if not _leaves(each) and not _is_without_pod(each)]
    said = [each.at("spec", "configuration", "settings", default={}).get(MINIMUM_MASTERS) for each in staying]
    # While Pilots differ, the greater number is the one that can't split a cluster.
    wanted = max((int(each) for each in said if each), default=0)
    # Elasticsearch refuses more than there are. A master that is about to join has the greater number in its own file.
    there = set(state.names.values())
    wanted = min(wanted, sum("master" in _roles(each) and each.name in there for each in pilots))
    if wanted and str(settings.get(MINIMUM_MASTERS)) != str(wanted):
        yield MINIMUM_MASTERS, wanted


def _leaves(pilot: Object) -> bool:
    said = pilot.spec.get("decommission")
    return bool(said) if said is not None else pilot.spec.get("inService") is False


def _is_without_pod(pilot: Object) -> bool:
    said: Tree | Mapping[str, Any] = pilot.condition("PodPresent") or {}
    return said.get("status") == "False"


def _roles(pilot: Object) -> Collection[str]:
    return (pilot.spec.get("elasticsearch") or {}).get("roles") or ()
