"""CassandraClusters: no controller acts on them yet, and their status says so."""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.api.kind_names import CassandraCluster
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, SetStatus
from pilothouse.runtime.snapshot import Snapshot

UNATTENDED = "NoController"


@controller(CassandraCluster)
def cassandra_clusters(cluster: Object, world: Snapshot) -> Iterator[Intent]:
    """Write a condition that no controller acts on a Cassandra cluster yet."""
    condition = {
        "type": "Progressing",
        "status": "False",
        "reason": UNATTENDED,
        "message": "No controller acts on Cassandra clusters yet: nothing is created, changed or deleted for "
        "this one.",
        "observedGeneration": cluster.generation,
    }
    conditions = with_condition(cluster.status.get("conditions"), condition, now=format_time(world.now))
    status = {**cluster.status, "conditions": conditions, "observedGeneration": cluster.generation}
    if status != cluster.status:
        yield SetStatus(cluster, status, because="no controller acts on Cassandra clusters yet")
