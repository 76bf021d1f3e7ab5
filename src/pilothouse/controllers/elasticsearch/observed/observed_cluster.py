"""All that a decision about a cluster depends on, looked at once; and the steps that it is made of.

scene = look(cluster, world)
scene.of("data")                     # the nodes of a pool
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from pilothouse.api.kind_names import Lease, Pilot, StatefulSet
from pilothouse.api.navigator.labels import POOL_NAME, leader_lease
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.desired.pilot_specs import minimum_masters
from pilothouse.controllers.elasticsearch.desired.pools import Pool, pools_of
from pilothouse.controllers.elasticsearch.desired.security import ClusterSecurity, security_of
from pilothouse.controllers.elasticsearch.observed.cluster_health import (
    ClusterHealth,
    facts_of,
    latest_of,
    waits_for_votes,
    why_node_must_stay,
)
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode, list_nodes
from pilothouse.runtime.intents import Intent, Wait
from pilothouse.runtime.snapshot import Snapshot


class ReconcileStep(msgspec.Struct, frozen=True):
    """What is done next, or waited for."""

    reason: str
    """What is going on, in one word."""
    message: str
    """The same for people."""
    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None
    refused: bool = False
    """Nothing comes of it before somebody changes the spec; everything else goes on."""
    gist: str = ""
    """How the message begins, where the rest of it changes all the time: events tell no more than this."""


class ObservedCluster(msgspec.Struct, frozen=True, dict=True):
    """A cluster and everything that is its."""

    cluster: Object
    pools: Mapping[str, Pool]
    sets: Mapping[str, Object]
    nodes: tuple[ClusterNode, ...]
    pilots: tuple[Object, ...]
    facts: ClusterHealth
    """What who leads has seen: what is decided by."""
    latest: ClusterHealth
    """What was last seen by anyone: what is told."""
    security: ClusterSecurity
    world: Snapshot

    @property
    def now(self) -> float:
        return self.world.now

    @property
    def is_formed(self) -> bool:
        """True once the database has given itself an id."""
        return bool(self.cluster.status.get("clusterUUID") or self.facts.uuid)

    def of(self, pool: str) -> tuple[ClusterNode, ...]:
        return tuple(node for node in self.nodes if node.pool.name == pool)

    @cached_property
    def in_rolling_order(self) -> tuple[Pool, ...]:
        """Pools that have a set and are asked for, those without masters first."""
        there = [pool for pool in self.pools.values() if pool.name in self.sets and not pool.removed]
        return tuple(sorted(there, key=lambda pool: pool.is_master))

    @cached_property
    def majority(self) -> int:
        """How many masters have to see each other (before Elasticsearch 7).

        A majority of all that are there: one that is to go has a say until it is gone. But never more than stay, or these could not go on
        without it."""
        asked = sum(pool.replicas for pool in self.pools.values() if pool.is_master)
        there = [node for node in self.nodes if node.pool.is_master]
        staying = [node for node in there if not node.leaving and not _is_to_go(node)]
        if not self.is_formed or not staying:
            return minimum_masters(self.cluster, asked)
        return min(minimum_masters(self.cluster, len(there)), len(staying))

    def why_not(self, node: ClusterNode) -> Wait | None:
        """Why a node can't be taken down now."""
        return why_node_must_stay(self.facts, self.nodes, self.sets, node, self.now)

    def waits_for_others(self, node: ClusterNode) -> Wait | None:
        """Why a master can't be taken away now, whatever the shards are like: the other nodes have to be in, with their votes."""
        for other in self.nodes:
            if other.name != node.name and (problem := other.unsettled(self.sets.get(other.pool.name))):
                return Wait("NodeNotReady", because=f"{problem}; one node at a time")
        return waits_for_votes(self.facts)


def observe(cluster: Object, world: Snapshot) -> ObservedCluster:
    """See everything that is a cluster's."""
    owned = world.owned(StatefulSet, cluster)
    sets = {one.labels[POOL_NAME]: one for one in owned if POOL_NAME in one.labels and not one.deleting}
    pools = pools_of(cluster, sets.values())
    pilots = tuple(world.owned(Pilot, cluster))
    lease = world.find(Lease, cluster.namespace, leader_lease(cluster.name))
    nodes = list_nodes(cluster, pools, sets, world)
    facts, latest = facts_of(pilots, lease), latest_of(pilots)
    return ObservedCluster(
        cluster, pools, sets, nodes, pilots, facts, latest, security_of(cluster, world), world
    )


def _is_to_go(node: ClusterNode) -> bool:
    return node.pilot is not None and bool(node.pilot.spec.get("decommission"))
