"""Rebalancing on request, for clusters that keep ``cluster.routing.rebalance.enable: none``.

    decision = rebalance_decision(pilots, settings, configured, shards, moving=False, still=False, now=now)
    decision.settings                        # to write, together with what is remembered
    decision.facts                           # for status.elasticsearch.cluster.rebalance; None: at any time

A pure decision of the leading pilot. A Pilot of the cluster has the request (``spec.rebalance``). The leader
allows rebalancing until shards lie evenly, the time is over or the request is gone, and then puts the setting
back as it was. What it was, and for which request it was changed, is in ``REMEMBERED``, written in the same
stroke: a leader that dies with rebalancing allowed is followed by one that puts it back. A request that is
done is remembered until it is removed, so that it is not begun again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import parse_time
from pilothouse.pilot.drivers.elasticsearch.cluster_actions import is_leaving, roles_of
from pilothouse.pilot.drivers.elasticsearch.cluster_state import ClusterState

REBALANCE: Final = "cluster.routing.rebalance.enable"
REMEMBERED: Final = "cluster.metadata.pilothouse_rebalance"
"""``allowed/<request>/<setting before>`` or ``done/<request>/<state>``."""
STILL: Final = 60.0
"""Seconds in which nothing moves after which shards count as even: Elasticsearch weighs more than counts."""
_FORBIDDEN: Final = "none"
_ALLOWED: Final = "all"


class RebalanceDecision(msgspec.Struct, frozen=True):
    settings: Mapping[str, Any]
    """To change; None resets one."""
    facts: Tree | None
    """None if rebalancing is allowed at any time and there is no request for it."""


class _Request(msgspec.Struct, frozen=True):
    name: str = ""
    until: float = 0.0


def shards_by_node(pilots: Iterable[Object], state: ClusterState) -> dict[str, int]:
    """How many shards each data node has that is in the cluster and stays."""
    staying = {each.name for each in pilots if "data" in roles_of(each) and not is_leaving(each)}
    return {name: state.shards.get(id, 0) for id, name in state.names.items() if name in staying}


def is_even(shards: Mapping[str, int]) -> bool:
    """Whether no node has more than one shard more than another."""
    return max(shards.values(), default=0) - min(shards.values(), default=0) <= 1


def rebalance_decision(
    pilots: Sequence[Object],
    settings: Mapping[str, Any],
    configured: Mapping[str, Any],
    shards: Mapping[str, int],
    *,
    moving: bool,
    still: bool,
    now: float,
) -> RebalanceDecision:
    """``settings`` were changed at run time, ``configured`` are of the nodes' files. ``still``: nothing has
    moved for ``STILL`` seconds."""
    request = _requested(pilots)
    kind, about, detail = _remembered(settings)
    setting = str(settings.get(REBALANCE) or configured.get(REBALANCE) or _ALLOWED)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(shards.items()))

    if kind == "allowed":
        back = {REBALANCE: detail or None}
        if not request.name:
            return RebalanceDecision({**back, REMEMBERED: None}, {"enabled": False})
        if setting == _FORBIDDEN:
            state, said = "Stopped", f"{REBALANCE} was set to none by another client"
        elif request.until <= now:
            state, said = "Expired", f"The time is over; shards by node: {counts}"
        elif is_even(shards) and not moving:
            state, said = "Even", f"Shards lie evenly: {counts}"
        elif still:
            state, said = "Even", f"Elasticsearch moves nothing more; shards by node: {counts}"
        else:
            return RebalanceDecision({}, _facts(request, "Allowed", f"Shards by node: {counts}"))
        done = {**back, REMEMBERED: f"done/{request.name}/{state}"}
        return RebalanceDecision(done, _facts(request, state, f"{said}."))

    if not request.name:
        changes = {REMEMBERED: None} if kind else {}
        return RebalanceDecision(changes, {"enabled": False} if setting == _FORBIDDEN else None)
    if kind == "done" and about == request.name:
        return RebalanceDecision({}, _facts(request, detail, f"Shards by node: {counts}"))
    if setting != _FORBIDDEN:
        said = f"{REBALANCE} is {setting}: shards are rebalanced at any time."
        return RebalanceDecision({}, {**_facts(request, "Unneeded", said), "enabled": True})
    if request.until <= now:
        return RebalanceDecision({}, _facts(request, "Expired", "The time of the request is over."))
    if is_even(shards) and not moving:
        done = {REMEMBERED: f"done/{request.name}/Even"}
        return RebalanceDecision(done, _facts(request, "Even", f"Shards lie evenly: {counts}."))
    before = str(settings.get(REBALANCE) or "")
    allowed = {REBALANCE: _ALLOWED, REMEMBERED: f"allowed/{request.name}/{before}"}
    return RebalanceDecision(allowed, _facts(request, "Allowed", f"Shards by node: {counts}"))


def _requested(pilots: Iterable[Object]) -> _Request:
    """The request that ends last, of any Pilot."""
    found = [
        _Request(str(said["request"]), parse_time(str(said["until"])))
        for each in pilots
        if (said := each.spec.get("rebalance"))
    ]
    return max(found, key=lambda each: (each.until, each.name), default=_Request())


def _remembered(settings: Mapping[str, Any]) -> tuple[str, str, str]:
    kind, _, rest = str(settings.get(REMEMBERED) or "").partition("/")
    about, _, detail = rest.partition("/")
    return kind, about, detail


def _facts(request: _Request, state: str, message: str) -> Tree:
    return {"enabled": False, "request": request.name, "state": state, "message": message}
