"""Everything that a decision about a cluster depends on, read once.

observed = observe(cluster, world)
observed.nodes_of("data")                # the nodes of a pool
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from pilothouse.api.kind_names import Lease, Pilot, StatefulSet
from pilothouse.api.navigator.labels import POOL_NAME, leader_lease
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import healthy
from pilothouse.controllers.elasticsearch.desired.pilot_specs import minimum_masters
from pilothouse.controllers.elasticsearch.desired.pools import Pool, pools_of
from pilothouse.controllers.elasticsearch.desired.security import ClusterSecurity, security_of
from pilothouse.controllers.elasticsearch.desired.supporting_objects import serving_role
from pilothouse.controllers.elasticsearch.observed.cluster_health import (
    ClusterHealth,
    latest_reported_health,
    reported_health,
)
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode, list_nodes
from pilothouse.runtime.snapshot import Snapshot


class ObservedCluster(msgspec.Struct, frozen=True, dict=True):
    """A cluster and everything that belongs to it."""

    cluster: Object
    pools: Mapping[str, Pool]
    sets: Mapping[str, Object]
    nodes: tuple[ClusterNode, ...]
    pilots: tuple[Object, ...]
    health: ClusterHealth
    """As the leading pilot reports it: what decisions are based on."""
    latest_health: ClusterHealth
    """As any pilot reported it last: what the status shows."""
    security: ClusterSecurity
    world: Snapshot

    @property
    def now(self) -> float:
        return self.world.now

    @property
    def is_formed(self) -> bool:
        """True once Elasticsearch has a cluster UUID."""
        return bool(self.cluster.status.get("clusterUUID") or self.health.uuid)

    def nodes_of(self, pool: str) -> tuple[ClusterNode, ...]:
        return tuple(node for node in self.nodes if node.pool.name == pool)

    @cached_property
    def serving_nodes(self) -> tuple[ClusterNode, ...]:
        """The nodes behind the service for clients, ready or not."""
        role = serving_role(self.pools.values())
        return tuple(node for node in self.nodes if not role or role in node.pool.roles)

    @property
    def is_reachable(self) -> bool:
        """Whether a node behind the service for clients is ready."""
        return any(node.pod is not None and healthy(node.pod) for node in self.serving_nodes)

    @cached_property
    def rolling_order(self) -> tuple[Pool, ...]:
        """Pools of the spec that have a StatefulSet, those without masters first."""
        there = [pool for pool in self.pools.values() if pool.name in self.sets and not pool.removed]
        return tuple(sorted(there, key=lambda pool: pool.is_master))

    @cached_property
    def majority(self) -> int:
        """The ``minimum_master_nodes`` of Elasticsearch before 7.

        A majority of all masters that exist: one that is to be removed votes until it is gone. But never more
        than those that stay, or they could not elect a master without it.
        """
        asked = sum(pool.replicas for pool in self.pools.values() if pool.is_master)
        there = [node for node in self.nodes if node.pool.is_master]
        staying = [node for node in there if not node.leaving and not _is_decommissioning(node)]
        if not self.is_formed or not staying:
            return minimum_masters(self.cluster, asked)
        return min(minimum_masters(self.cluster, len(there)), len(staying))


def observe(cluster: Object, world: Snapshot) -> ObservedCluster:
    """Read everything that belongs to a cluster."""
    owned = world.owned(StatefulSet, cluster)
    sets = {one.labels[POOL_NAME]: one for one in owned if POOL_NAME in one.labels and not one.deleting}
    pools = pools_of(cluster, sets.values())
    pilots = tuple(world.owned(Pilot, cluster))
    lease = world.find(Lease, cluster.namespace, leader_lease(cluster.name))
    nodes = list_nodes(cluster, pools, sets, world)
    health, latest = reported_health(pilots, lease), latest_reported_health(pilots)
    return ObservedCluster(
        cluster, pools, sets, nodes, pilots, health, latest, security_of(cluster, world), world
    )


def _is_decommissioning(node: ClusterNode) -> bool:
    return node.pilot is not None and bool(node.pilot.spec.get("decommission"))
