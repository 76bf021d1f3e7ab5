"""What the leading pilot says of the whole cluster, and whether one node may be taken down by it.

    facts = facts_of(pilots, lease)
    why_node_must_stay(facts, nodes, sets, node, now)   # a Wait, or None if this node may go down now

ClusterHealth count only if they come from who holds the cluster's lease, and were seen in that term. Whether they were seen before or after a node came
back is told by ``members`` (ADR 10), never by a clock.

A master gives its vote away before it stops if it is the only one, as one of two has it, and gets it back a moment after it is in again. Until then the other
has nobody to give its own to: no master is taken down while another is *without a vote*, or there would be none until it is back.

A node may be *shut out*: it runs, but those that are together are so without it, all with later versions, and Elasticsearch lets nobody in who is behind
everybody. It comes back with its data only if it is moved on as well. For how long it has been so does go by clocks, its pilot's and ours: where they differ, a node is moved
early or late that serves nobody in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import parse_time
from pilothouse.controllers.elasticsearch.cluster_nodes import ClusterNode
from pilothouse.meta.versions import Version
from pilothouse.runtime.intents import Wait

AGAIN: Final = 10.0
"""Seconds after which to look again at what depends on who leads, or on how long: of leases, which are renewed all the time, nobody is told."""
SHUT_OUT_FOR: Final = 60.0
"""Seconds for which a node has been out of touch before it is held to be shut out: a moment's silence is no reason to restart it."""


class ClusterHealth(msgspec.Struct, frozen=True):
    """What is known of the whole; nothing, if nobody leads."""

    health: str = ""
    uuid: str = ""
    settled: bool = False
    members: Mapping[str, str] = {}
    without_vote: tuple[str, ...] = ()
    shards: Mapping[str, Any] | None = None
    read_only: Mapping[str, Any] | None = None
    """Indices that take no writes since a disk was nearly full."""


def facts_of(pilots: Iterable[Object], lease: Object | None) -> ClusterHealth:
    """What the leading pilot reports."""
    if lease is None:
        return ClusterHealth()
    holder = str(lease.spec.get("holderIdentity") or "").partition("_")[0]
    leader = next((pilot for pilot in pilots if pilot.name == holder), None)
    said = leader.at("status", "elasticsearch", "cluster") if leader is not None else None
    if not said or not said.get("observedTime"):
        return ClusterHealth()
    acquired = lease.spec.get("acquireTime")
    if acquired and parse_time(said["observedTime"]) < parse_time(acquired) // 1:
        # What it saw when it led before.
        return ClusterHealth()
    return _read(said)


def latest_of(pilots: Iterable[Object]) -> ClusterHealth:
    """What was last seen by anyone who led: good enough to be told, while nobody or somebody new leads."""
    pilots = list(pilots)
    if not any(pilot.is_true("Ready") for pilot in pilots):
        return ClusterHealth()
    said = [pilot.at("status", "elasticsearch", "cluster") for pilot in pilots]
    seen = [one for one in said if one and one.get("observedTime")]
    return _read(max(seen, key=lambda one: parse_time(one["observedTime"]))) if seen else ClusterHealth()


def _read(said: Mapping[str, Any]) -> ClusterHealth:
    return ClusterHealth(
        health=said.get("health") or "",
        uuid=said.get("clusterUUID") or "",
        settled=bool(said.get("settled")),
        members=said.get("members") or {},
        without_vote=tuple(said.get("withoutVote") or ()),
        shards=said.get("shards"),
        read_only=said.get("readOnlyIndices"),
    )


def is_shut_out(facts: ClusterHealth, nodes: Iterable[ClusterNode], node: ClusterNode, now: float) -> bool:
    """Whether a node can't come back to its cluster with the version that it has."""
    if not facts.members or node.name in facts.members or node.out_of_touch_for(now) < SHUT_OUT_FOR:
        return False
    versions = [each.version for each in nodes if each.name in facts.members]
    return bool(node.version and versions) and all(
        version and Version.parse(version) > Version.parse(node.version) for version in versions
    )


def waits_for_votes(facts: ClusterHealth) -> Wait | None:
    """Why no master can be taken down now: another has given its vote away to be restarted. The leading pilot gives it back."""
    if not facts.without_vote:
        return None
    names, several = ", ".join(facts.without_vote), len(facts.without_vote) > 1
    because = f"{names} {'have' if several else 'has'} not got {'their votes' if several else 'its vote'} back yet; one master at a time"
    return Wait("VoteHeld", because=because)


def why_node_must_stay(
    facts: ClusterHealth,
    nodes: Sequence[ClusterNode],
    sets: Mapping[str, Object],
    taken: ClusterNode,
    now: float,
) -> Wait | None:
    """Why this node can't be taken down now; None if it can.

    One that is down already takes nothing away, and neither does one that is shut out. Otherwise all others have to be settled, and the shards where they belong. Those that
    are empty and about to go are not waited for.
    """
    if taken.is_down or is_shut_out(facts, nodes, taken, now):
        return None
    for node in nodes:
        if node.name == taken.name or (node.is_decommissioned and not node.leaving):
            continue
        if problem := node.unsettled(sets.get(node.pool.name)):
            again = AGAIN if taken.is_out_of_touch else None
            return Wait("NodeNotReady", because=f"{problem}; one node at a time", seconds=again)
    if not facts.health:
        return Wait(
            "HealthUnknown",
            because="nobody knows how the cluster is: no pilot leads, or the one that does has not reported yet",
            seconds=AGAIN,
        )
    for node in nodes:
        if not node.is_decommissioned and facts.members.get(node.name) != node.started:
            because = f"the cluster's health was last seen before {node.name} was in"
            return Wait("HealthOutdated", because=because, seconds=AGAIN if node.is_out_of_touch else None)
    if taken.pool.is_master and (wait := waits_for_votes(facts)):
        return wait
    if facts.health == "Red":
        return Wait("Red", because="the cluster's health is Red: data is missing, and no node can be spared")
    if facts.health == "Yellow" and not facts.settled:
        return Wait("Recovering", because="the cluster's health is Yellow, and shards are still being built")
    return None
