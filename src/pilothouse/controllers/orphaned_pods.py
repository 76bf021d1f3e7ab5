"""Deletes pods whose node is gone, so that they can be recreated elsewhere.

When a node is deleted, no agent is left to report that its pods have ended, and a set would wait for them
forever. Such a pod is marked first (condition ``DisruptionTarget``). If the node is not back after the
quarantine, and the server confirms that there is no node of that name, the pod is deleted without a grace
period: deleting a Node states that nothing runs there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.disruption_target import DISRUPTION_TARGET
from pilothouse.api.kind_names import Node, Pod
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Delete, Intent, ObjectTarget, RequeueAfter, SetStatus
from pilothouse.runtime.snapshot import Snapshot

QUARANTINE: Final = 40.0
REASON: Final = "DeletionByPodGC"


def on_node(node: Object, world: Snapshot) -> Names:
    return [pod.key for pod in world.where(Pod, "spec.nodeName", node.name)]


@controller(Pod, also={Node: on_node}, standalone=True)
def stranded_pods(pod: Object, world: Snapshot) -> Iterator[Intent]:
    """Delete a pod whose node is gone."""
    name = pod.spec.get("nodeName")
    if not name:
        return
    marked = pod.condition(DISRUPTION_TARGET) or {}
    stranded = marked.get("reason") == REASON and marked.get("status") == "True"
    if world.find(Node, "", name) is not None:
        if stranded:
            yield _marked(pod, "False", f"node {name} is back", world.now)
    elif not stranded:
        yield _marked(pod, "True", f"PodGC: node {name} no longer exists", world.now)
        yield RequeueAfter(QUARANTINE, because=f"node {name} may come back")
    else:
        left = parse_time(marked["lastTransitionTime"]) + QUARANTINE - world.now
        if left > 0:
            yield RequeueAfter(left, because=f"node {name} may come back")
            return
        yield Delete(
            pod,
            grace=0,
            unless=(ObjectTarget(Node, "", name),),
            because=f"its node {name} is gone",
            event="NodeGone",
        )


def _marked(pod: Object, status: str, message: str, now: float) -> Intent:
    condition = {"type": DISRUPTION_TARGET, "status": status, "reason": REASON, "message": message}
    conditions = with_condition(pod.status.get("conditions"), condition, now=format_time(now))
    return SetStatus(pod, {**pod.status, "conditions": conditions}, because=message)
