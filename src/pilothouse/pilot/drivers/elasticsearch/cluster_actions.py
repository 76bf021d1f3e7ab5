"""What the leading pilot has to do for its whole cluster: a pure decision over what Elasticsearch and the
Pilots say.

    for action in cluster_actions(prefix, pilots, state, settings, (8, 17), release=True): ...

* Decommissioned nodes are excluded from allocation, and masters among them from voting (7 and later). Names
  in the exclusions that are not of this cluster's nodes were added by a person, and stay.
* ``DECOMMISSIONS`` is written together with the exclusion: for which decommission of its Pilot each node is
  excluded. So a pilot recognizes an exclusion that is left from an earlier decommission; and a leader that
  finds a later decommission than it has seen leaves that node alone, since its own view lags.
* Before a node stops, its pilot disables the allocation of replicas, and excludes the node from voting if it
  has the only vote. Both are undone once all expected nodes are in, or one has been missing for long.
* The minimum of masters (up to 6) is what the staying Pilots say, and at most the number of masters.
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
"""Elasticsearch keeps settings under ``cluster.metadata`` for other programs."""
ALLOCATION: Final = "cluster.routing.allocation.enable"
HELD_BACK: Final = "primaries"
ALL_IN: Final = 5.0
"""Seconds for which all nodes must have been in before what one did to stop is undone: one that is about to
stop has reported that by then."""
MISSED: Final = 120.0
"""Seconds after which a missing node is not waited for: copies of its shards are better built elsewhere."""
STILL: Final = 15.0
"""Seconds in which no shard moves off a node that is to go, before Elasticsearch is asked to reroute."""
UNSEEN: Final = 30.0
"""Seconds between two observations after which the time between them is unknown: another pilot led, or the
cluster did not answer."""


class SetSettings(msgspec.Struct, frozen=True):
    """Change settings of the whole cluster; None resets one."""

    settings: Mapping[str, Any]


class ExcludeVoters(msgspec.Struct, frozen=True):
    names: tuple[str, ...]


class IncludeVoters(msgspec.Struct, frozen=True):
    """Remove all voting exclusions."""


Act = SetSettings | ExcludeVoters | IncludeVoters


def settings_in_force(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were changed at run time, flat; transient ones win."""
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
    """``prefix`` begins the names of our nodes. ``release``: what nodes did to stop may be undone."""
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
    """What is set only for nodes to stop: the allocation of replicas, votes."""
    replicas = {ALLOCATION} if settings.get(ALLOCATION) == HELD_BACK else set()
    return frozenset(replicas | without_vote(prefix, pilots, state, settings))


def without_vote(
    prefix: str, pilots: Sequence[Object], state: ClusterState, settings: Mapping[str, Any]
) -> set[str]:
    """The nodes that gave their vote away to stop and have not got it back."""
    return _ours(prefix, state) - _going(pilots, settings).keys()


def decommission(uid: str, generation: int) -> str:
    """Identifies one decommission of a Pilot."""
    return f"{uid}/{generation}"


def decommissions(settings: Mapping[str, Any]) -> dict[str, str]:
    """For which decommission each node is excluded, by its name."""
    found = (each.partition("=") for each in str(settings.get(DECOMMISSIONS) or "").split(","))
    return {name: said for name, _, said in found if name}


def are_all_in(pilots: Collection[Object], state: ClusterState) -> bool:
    """Whether every node that should be there is, and none is about to stop."""
    names = set(state.names.values())
    expected = [each for each in pilots if not is_leaving(each) and not _is_without_pod(each)]
    return all(each.name in names and each.at("status", "phase") == "Running" for each in expected)


class MembershipTimer:
    """For how long all nodes have been in, or one has been missing, since a node last prepared to stop."""

    def __init__(self) -> None:
        self._seen: tuple[bool, frozenset[str]] | None = None
        self._since = self._looked = 0.0

    def suffices(self, all_in: bool, held: frozenset[str], now: float) -> bool:
        """Whether what is held may be released: all nodes are in for good, or one is not coming back soon."""
        if (all_in, held) != self._seen or now - self._looked > UNSEEN:
            self._seen, self._since = (all_in, held), now
        self._looked = now
        return now - self._since >= (ALL_IN if all_in else MISSED)


class DrainProgress:
    """Whether shards that are to leave their nodes have stopped moving, so that a reroute is needed.

    Elasticsearch moves shards when the cluster's state changes, and under load may miss the last change.
    """

    def __init__(self, still: float = STILL) -> None:
        self._still = still
        self._seen: Mapping[str, int] = {}
        self._since = 0.0

    def stands_still(self, left: Mapping[str, int], *, moving: bool, now: float) -> bool:
        """True once every ``still`` seconds in which nothing moves. ``left``: shards by leaving node."""
        if not left or moving or left != self._seen:
            self._seen, self._since = dict(left), now
            return False
        if now - self._since < self._still:
            return False
        self._since = now
        return True


def shards_left(pilots: Sequence[Object], state: ClusterState, settings: Mapping[str, Any]) -> dict[str, int]:
    """How many shards each node that is to go still has, without those that have none."""
    going = _going(pilots, settings)
    found = {name: state.shards.get(id, 0) for id, name in state.names.items() if name in going}
    return {name: count for name, count in found.items() if count}


def gives_vote_away(id: str, masters: Collection[str], state: ClusterState) -> bool:
    """Whether a node that stops has the only vote although another master could have it.

    Without a master nothing can be written until it is back; and if it comes back first, with a later
    version, the other can't join it. Of several votes none is given away: it would be missing if the rest
    were lost."""
    others = {each for each in masters if state.names.get(each, "") not in state.excluded_voters} - {id}
    return state.voters == {id} and bool(others)


def members(pilots: Collection[Object], state: ClusterState) -> dict[str, str]:
    """The nodes in the cluster, with the start that the Pilot of each reports."""
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
    """The nodes that are to leave, each with its decommission."""
    said = decommissions(settings)
    going = {each.name: decommission(each.uid, each.generation) for each in pilots if is_leaving(each)}
    return going | {each.name: said[each.name] for each in pilots if _is_behind(each, said.get(each.name))}


def _is_behind(pilot: Object, said: str | None) -> bool:
    """Whether another leader has seen a later version of this Pilot."""
    uid, _, generation = (said or "").rpartition("/")
    return uid == pilot.uid and generation.isdigit() and int(generation) > pilot.generation


def _voters(
    prefix: str, pilots: Sequence[Object], going: Collection[str], state: ClusterState, *, release: bool
) -> Iterator[Act]:
    masters = [each for each in pilots if "master" in roles_of(each)]
    wanted = {each.name for each in masters if each.name in going}
    if wanted and len(wanted) == len(masters):
        # At least one has to keep its vote.
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
    return {name for name in state.excluded_voters if name.startswith(prefix)}


def _minimum_masters(
    pilots: Sequence[Object], state: ClusterState, settings: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    # One that is to go, or has gone and is not forgotten yet, does not count.
    staying = [each for each in pilots if not is_leaving(each) and not _is_without_pod(each)]
    said = [each.at("spec", "configuration", "settings", default={}).get(MINIMUM_MASTERS) for each in staying]
    # While Pilots differ, the greater number can't split a cluster.
    wanted = max((int(each) for each in said if each), default=0)
    # Elasticsearch refuses more than there are. A master about to join has the greater number in its file.
    there = set(state.names.values())
    wanted = min(wanted, sum("master" in roles_of(each) and each.name in there for each in pilots))
    if wanted and str(settings.get(MINIMUM_MASTERS)) != str(wanted):
        yield MINIMUM_MASTERS, wanted


def is_leaving(pilot: Object) -> bool:
    """Whether the Pilot's instance is decommissioned."""
    said = pilot.spec.get("decommission")
    return bool(said) if said is not None else pilot.spec.get("inService") is False


def _is_without_pod(pilot: Object) -> bool:
    said: Tree | Mapping[str, Any] = pilot.condition("PodPresent") or {}
    return said.get("status") == "False"


def roles_of(pilot: Object) -> Collection[str]:
    """The roles of the node that a Pilot is of."""
    return (pilot.spec.get("elasticsearch") or {}).get("roles") or ()
