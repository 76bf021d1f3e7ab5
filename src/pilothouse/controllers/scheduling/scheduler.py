"""The scheduler: binds each pod to the best node, or reports why there is none.

    intents = scheduling(pod, world)        # a Bind; or PodScheduled=False, an event, and a Wait

Pods are scheduled one at a time (``serial``), each with all earlier pods in view, so that no capacity is used
twice. There are no priorities and no preemption: a pod waits until there is room. For a pod with claims that
wait for their first consumer, the selected node is written into the claims, the pod's place there is
reserved, and once the claims are bound the pod is bound too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pilothouse.api.kind_names import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from pilothouse.api.local_volumes import PROVISIONED
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import ended
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.scheduling.filters import obstacles, remedy
from pilothouse.controllers.scheduling.node_info import AWAITING, NodeInfo, claims_of, node_infos
from pilothouse.controllers.scheduling.pod_affinity import PodAffinityState
from pilothouse.controllers.scheduling.scores import best
from pilothouse.controllers.scheduling.topology_spread import TopologySpread
from pilothouse.controllers.scheduling.volume_binding import PodVolumeBinding
from pilothouse.controllers.storage.volume_matching import SELECTED_NODE
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Bind, Intent, PatchObject, RecordEvent, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

SCHEDULER: Final = "default-scheduler"
SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"


def pending(changed: Object, world: Snapshot) -> Names:
    """All pods without a node: one may fit by now."""
    return [pod.key for pod in world.where(Pod, "status.phase", "Pending") if _ours(pod)]


def users(claim: Object, world: Snapshot) -> Names:
    """The pods that wait for a claim."""
    return [
        pod.key
        for pod in world.where(Pod, "status.phase", "Pending")
        if pod.namespace == claim.namespace and _ours(pod) and claim.name in claims_of(pod)
    ]


def pods_that_may_fit(changed: Object, world: Snapshot) -> Names:
    """The pods that may fit after a pod was created or deleted: for room, affinity or even spread."""
    if not changed.spec.get("nodeName"):
        return []
    gone = changed.deleting or ended(changed) or world.find(Pod, *changed.key) is None
    return [
        pod.key
        for pod in world.where(Pod, "status.phase", "Pending")
        if _ours(pod) and (gone or _minds_others(pod))
    ]


@controller(
    Pod,
    also={
        Pod: pods_that_may_fit,
        Node: pending,
        PersistentVolumeClaim: users,
        PersistentVolume: pending,
        StorageClass: pending,
    },
    reads=Namespace,
    standalone=True,
    serial=True,
)
def scheduling(pod: Object, world: Snapshot) -> Iterator[Intent]:
    """Bind a pod to the best node that it can run on."""
    if not _ours(pod):
        return
    if gates := pod.spec.get("schedulingGates"):
        names = ", ".join(str(gate.get("name")) for gate in gates)
        yield Wait("SchedulingGated", because=f"its scheduling gates block it: {names}", remedy="remove them")
        return
    try:
        yield from _placed(pod, world)
    except ValueError as problem:
        yield from _stuck(pod, str(problem), "correct the field", world.now)


def _placed(pod: Object, world: Snapshot) -> Iterator[Intent]:
    storage = PodVolumeBinding(pod, world)
    found = node_infos(world, pod)
    if storage.missing is not None:
        message = f"0/{len(found)} nodes are available: {storage.missing.because}."
        yield from _stuck(pod, message, storage.missing.remedy, world.now)
        return
    near = PodAffinityState(pod, found, {one.name: one.labels for one in world.all(Namespace)})
    spread = TopologySpread(pod, found)
    fitting: list[NodeInfo] = []
    blocked: dict[str, list[Object]] = {}
    for place in found:
        against = list(obstacles(pod, place, near, spread, storage))
        for obstacle in against:
            blocked.setdefault(obstacle, []).append(place.node)
        if not against:
            fitting.append(place)
    if not fitting:
        advice = _advice(blocked) or "add a node"
        yield from _stuck(pod, _unschedulable_text(found, blocked), advice, world.now)
        return
    node = best(pod, fitting, near, spread).name
    if storage.unbound:
        yield from _prepared(pod, storage.unbound, node, world.now)
        return
    because = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
    yield Bind(pod, node, because=because, event="Scheduled")


def _prepared(pod: Object, claims: Sequence[Object], node: str, now: float) -> Iterator[Intent]:
    """Have the pod's volumes bound on its node, and reserve its place until they are."""
    names = " ".join(claim.name for claim in claims)
    failures = [each for claim in claims if (each := _failure(claim))]
    first = f"its volumes are to be bound on node {node} first: {names.replace(' ', ', ')}"
    because = "; ".join(failures) or first
    # The place is reserved before anything is provisioned for it.
    noted = list(_set_condition(pod, AWAITING, because, now))
    yield from noted
    if noted and failures:
        yield RecordEvent(pod, because=because, event="FailedScheduling", warning=True)
    for claim in claims:
        if claim.annotations.get(SELECTED_NODE) != node:
            fields: Tree = {"metadata": {"annotations": {SELECTED_NODE: node}}}
            yield PatchObject(claim, fields, exact=True, because=f"pod {pod.name} is to run on node {node}")
    yield Wait(
        AWAITING,
        because=because,
        remedy=f"check what they wait for: kubectl describe pvc {names} -n {pod.namespace}",
    )


def _failure(claim: Object) -> str:
    """Why the selected node can't provision the volume, if it has reported that; else empty."""
    condition = claim.condition(PROVISIONED) or {}
    if condition.get("status") != "False":
        return ""
    return f'persistentvolumeclaim "{claim.name}" can\'t be provisioned: {condition.get("message")}'


def _stuck(pod: Object, message: str, advice: str, now: float) -> Iterator[Intent]:
    noted = list(_set_condition(pod, UNSCHEDULABLE, message, now))
    yield from noted
    if noted:
        yield RecordEvent(pod, because=message, event="FailedScheduling", warning=True)
    yield Wait(UNSCHEDULABLE, because=message, remedy=advice)


def _set_condition(pod: Object, reason: str, message: str, now: float) -> Iterator[Intent]:
    """Set the condition ``PodScheduled=False``, if it changes."""
    condition = {"type": SCHEDULED, "status": "False", "reason": reason, "message": message}
    before = pod.status.get("conditions")
    conditions = with_condition(before, condition, now=format_time(now))
    if conditions != before:
        yield SetStatus(pod, {**pod.status, "conditions": conditions}, because=message)


def _advice(blocked: Mapping[str, Sequence[Object]]) -> str:
    """What would help, the most common obstacle first."""
    by_count = sorted(blocked.items(), key=lambda each: -len(each[1]))
    return "; ".join(dict.fromkeys(remedy(obstacle, nodes) for obstacle, nodes in by_count))


def _unschedulable_text(found: Sequence[NodeInfo], blocked: Mapping[str, Sequence[Object]]) -> str:
    if not found:
        return "no nodes available to schedule pods"
    counts = ", ".join(sorted(f"{len(nodes)} {reason}" for reason, nodes in blocked.items()))
    return f"0/{len(found)} nodes are available: {counts}."


def _ours(pod: Object) -> bool:
    """True if this scheduler has to schedule the pod."""
    return (
        not pod.spec.get("nodeName")
        and not pod.deleting
        and not ended(pod)
        and (pod.spec.get("schedulerName") or SCHEDULER) == SCHEDULER
    )


def _minds_others(pod: Object) -> bool:
    affinity = pod.spec.get("affinity") or {}
    return bool(affinity.get("podAffinity") or pod.spec.get("topologySpreadConstraints"))
