"""The status of a set: the counts of its pods, and the progress of an update.

    status_of(set, wanted, history, pods, outgoing=1, now=world.now)

The counts are of observed pods; ``outgoing`` pods of the current revision are deleted by this decision for
the update, and do not count as current.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import available, ready
from pilothouse.controllers.stateful_sets.pod_identity import revision_of
from pilothouse.controllers.stateful_sets.revisions import RevisionHistory
from pilothouse.controllers.stateful_sets.set_spec import SetSpec


def status_of(
    stateful_set: Object,
    wanted: SetSpec,
    history: RevisionHistory,
    pods: Iterable[Object],
    *,
    outgoing: int,
    now: float,
) -> Tree:
    """The status of a set. Fields of other writers stay."""
    pods = list(pods)
    staying = [revision_of(pod) for pod in pods if not pod.deleting]
    counts = {
        "replicas": len(pods),
        "readyReplicas": sum(map(ready, pods)),
        "availableReplicas": sum(available(pod, wanted.min_ready_seconds, now=now) for pod in pods),
        "currentReplicas": max(0, staying.count(history.current.name) - outgoing),
        "updatedReplicas": staying.count(history.update.name),
    }
    current = history.current.name
    complete = all(
        counts[field] == wanted.replicas for field in ("replicas", "readyReplicas", "updatedReplicas")
    )
    if complete and not wanted.on_delete:
        current = history.update.name
        counts["currentReplicas"] = counts["updatedReplicas"]
    status: Tree = {
        **stateful_set.status,
        **counts,
        "observedGeneration": max(
            stateful_set.generation, _number(stateful_set.status, "observedGeneration")
        ),
        "currentRevision": current,
        "updateRevision": history.update.name,
        "collisionCount": history.collisions,
    }
    # The server omits these when they are zero or empty.
    for field in ("readyReplicas", "currentReplicas", "updatedReplicas", "currentRevision", "updateRevision"):
        if not status[field]:
            del status[field]
    return status


def summary(wanted: SetSpec, status: Tree) -> str:
    made, ready_ones = status["replicas"], status.get("readyReplicas", 0)
    updated = status.get("updatedReplicas", 0)
    latest = status.get("updateRevision", "unknown")
    return f"{made} of {wanted.replicas} pods exist, {ready_ones} ready, {updated} of revision {latest}"


def _number(status: Any, field: str) -> int:
    value = status.get(field)
    return value if isinstance(value, int) else 0
