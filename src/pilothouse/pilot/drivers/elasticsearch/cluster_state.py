"""What a node's answers mean.

state = ClusterState.of(await node.get("/_cluster/state/...", local="true"))
state.has_master, state.id_of("es-demo-data-0"), state.shards[id]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Tree

STATE: Final = "/_cluster/state/master_node,nodes,routing_nodes,metadata"
STATE_FILTER: Final = ",".join(
    (
        "cluster_uuid",
        "master_node",
        "nodes.*.name",
        "routing_nodes.nodes.*.index",
        "metadata.cluster_uuid",
        "metadata.cluster_uuid_committed",
        "metadata.cluster_coordination",
    )
)
COPIES_FILTER: Final = ",".join(
    (
        STATE_FILTER,
        *(f"routing_nodes.nodes.*.{name}" for name in ("shard", "state")),
        *(
            f"routing_nodes.unassigned.{name}"
            for name in ("index", "shard", "primary", "recovery_source.type")
        ),
    )
)
LED_STATE: Final = f"{STATE},blocks"
"""Requested by the leading pilot."""
_CLUSTER_BLOCK: Final = "13"
_INDEX_BLOCK: Final = "12"
"""The ids of ``read_only_allow_delete``, the block on all indices of a node past the flood stage."""
LED_STATE_FILTER: Final = f"{STATE_FILTER},blocks.global.{_CLUSTER_BLOCK},blocks.indices.*.{_INDEX_BLOCK}"
_MOST_NAMES: Final = 10
DATA_NODES: Final = "/_nodes/data:true/http"
MASTERS: Final = "/_nodes/master:true/http"
NODES_FILTER: Final = "nodes.*.name"
STATS: Final = "/_nodes/_local/stats/indices,jvm,fs"
STATS_FILTER: Final = ",".join(
    f"nodes.*.{part}"
    for part in (
        "indices.docs",
        "indices.store.size_in_bytes",
        "indices.indexing.index_total",
        "indices.search.query_total",
        "jvm.mem",
        "jvm.gc.collectors",
        "fs.total",
    )
)
_HEALTHS: Final = {"green": "Green", "yellow": "Yellow", "red": "Red"}
_FROM_ELSEWHERE: Final = ("EMPTY_STORE", "SNAPSHOT", "LOCAL_SHARDS")
"""Recovery sources of a primary that was on no node before."""
_NO_UUID: Final = ("", "_na_")


class ClusterState(msgspec.Struct, frozen=True):
    uuid: str = ""
    """Empty while the cluster has not been formed."""
    master: str = ""
    names: Mapping[str, str] = {}
    """By id, of the nodes in the cluster."""
    shards: Mapping[str, int] = {}
    """How many each node holds or is about to hold, by its id."""
    voters: frozenset[str] = frozenset()
    excluded_voters: frozenset[str] = frozenset()
    """Names."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> ClusterState:
        metadata = answer.get("metadata") or {}
        coordination = metadata.get("cluster_coordination") or {}
        uuid = str(metadata.get("cluster_uuid") or answer.get("cluster_uuid") or "")
        if uuid in _NO_UUID or metadata.get("cluster_uuid_committed") is False:
            uuid = ""
        routing = (answer.get("routing_nodes") or {}).get("nodes") or {}
        return cls(
            uuid=uuid,
            master=str(answer.get("master_node") or ""),
            names={id: str(node.get("name") or "") for id, node in (answer.get("nodes") or {}).items()},
            shards={id: len(found) for id, found in routing.items()},
            voters=frozenset(coordination.get("last_committed_config") or ()),
            excluded_voters=frozenset(
                str(each.get("node_name") or "")
                for each in coordination.get("voting_config_exclusions") or ()
            ),
        )

    @property
    def has_master(self) -> bool:
        return bool(self.master) and self.master in self.names

    def id_of(self, name: str) -> str:
        """Empty if no node of that name is in the cluster."""
        return next((id for id, found in self.names.items() if found == name), "")


class ShardCopy(msgspec.Struct, frozen=True):
    """One copy of a shard, on a node."""

    shard: tuple[str, int]
    node: str
    """Its id."""
    whole: bool
    """It is complete, and does not move."""


def copies_of(answer: Mapping[str, Any]) -> list[ShardCopy]:
    nodes = (answer.get("routing_nodes") or {}).get("nodes") or {}
    return [
        ShardCopy((str(each.get("index")), int(each.get("shard") or 0)), node, each.get("state") == "STARTED")
        for node, found in nodes.items()
        for each in found
    ]


def not_elsewhere(node: str, copies: Collection[ShardCopy], staying: Collection[str]) -> int:
    """How many of a node's copies have to be waited for.

    Not for a complete copy of a shard that every staying node has complete too: with more copies than nodes
    it has nowhere to go.
    """
    elsewhere: dict[tuple[str, int], dict[str, bool]] = {}
    for copy in copies:
        if copy.node in staying and copy.node != node:
            elsewhere.setdefault(copy.shard, {})[copy.node] = copy.whole
    return sum(
        not (copy.whole and found and found.keys() >= set(staying) and all(found.values()))
        for copy in copies
        if copy.node == node
        for found in (elsewhere.get(copy.shard, {}),)
    )


def missing_indices(answer: Mapping[str, Any]) -> list[str]:
    """The indices with primaries that have data, and that no node has.

    A node that has just come back, or that can't open a shard, may have the data on its disk."""
    unassigned = (answer.get("routing_nodes") or {}).get("unassigned") or ()
    return sorted(
        {
            str(each.get("index"))
            for each in unassigned
            if each.get("primary") and (each.get("recovery_source") or {}).get("type") not in _FROM_ELSEWHERE
        }
    )


def health_facts(health: Mapping[str, Any], *, held_back: bool) -> Tree:
    """The leading pilot's report of the health. ``held_back``: not all shards may be allocated."""

    def count(name: str) -> int:
        return int(health.get(name) or 0)

    looked_for = count("number_of_in_flight_fetch")
    moving = count("relocating_shards") + count("initializing_shards") + looked_for
    facts: Tree = {
        "nodes": count("number_of_nodes"),
        "shards": {
            "active": count("active_shards"),
            "relocating": count("relocating_shards"),
            "initializing": count("initializing_shards") + looked_for,
            "unassigned": count("unassigned_shards"),
        },
        "settled": not (moving or count("delayed_unassigned_shards") or held_back),
    }
    if status := _HEALTHS.get(str(health.get("status") or "").lower()):
        facts["health"] = status
    return facts


def read_only_indices(answer: Mapping[str, Any]) -> Tree | None:
    """The indices that take no writes until there is room on a disk: count and first names, or None.

    A block on the whole cluster counts as one, by the name ``_all``."""
    blocks = answer.get("blocks") or {}
    names = sorted(name for name, found in (blocks.get("indices") or {}).items() if _INDEX_BLOCK in found)
    if _CLUSTER_BLOCK in (blocks.get("global") or {}):
        names = ["_all", *names]
    return {"count": len(names), "names": names[:_MOST_NAMES]} if names else None


def surplus(shards: int, documents: int) -> str:
    """The message for a node that may go and still holds copies."""
    copies = "copy" if shards == 1 else "copies"
    return (
        f"All data of the cluster is on the nodes that stay. {shards} {copies} of shards "
        f"({documents} documents) are still here, since each node that stays has a copy of its own."
    )


def documents(stats: Mapping[str, Any]) -> int | None:
    found = local(stats).get("indices", {}).get("docs", {}).get("count")
    return found if isinstance(found, int) else None


def local(stats: Mapping[str, Any]) -> Mapping[str, Any]:
    """The statistics of the one node that was asked."""
    return next(iter((stats.get("nodes") or {}).values()), {})
