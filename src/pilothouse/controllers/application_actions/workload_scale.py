"""``openstorage.io.action.workload/scale``: gives a workload an exact number of replicas.

    spec:
      action: openstorage.io.action.workload/scale
      object: {kind: StatefulSet, name: db, uid: …}
      target: {from: "2", to: "3", owner: …, field: "spec.nodePools[data].replicas"}

* Of a cluster's pool the executor sets the cluster's field; the cluster's controller drains its nodes.
* A StatefulSet whose pods have Pilots shrinks pod by pod: the Pilot of the highest ordinal is decommissioned,
  and the set shrinks once it says ``Decommissioned``. What can't be drained in time is taken back.
* Any other set is only scaled up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.applications.autoscalers import AUTOSCALERS, autoscaler_of
from pilothouse.api.applications.registry import applications
from pilothouse.api.applications.workload_fields import NoFields, WorkloadFields, fields_of
from pilothouse.api.kind_names import ApplicationAction, Deployment, KindName, Pilot, Pod, StatefulSet
from pilothouse.api.navigator.labels import DECOMMISSIONED_FOR
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import SCALE
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS, pause_of, pause_under_way
from pilothouse.controllers.application_actions.action_status import (
    SERVICE_ACCOUNT,
    finished,
    is_finished,
    running,
)
from pilothouse.controllers.application_actions.field_change import (
    ChangeProgress,
    FieldChange,
    change_field,
    running_in_namespace,
    undone,
)
from pilothouse.controllers.application_actions.target_workload import target_workload
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, PatchObject, RequeueAfter, Wait
from pilothouse.runtime.snapshot import Snapshot

UP_SECONDS: Final = 1800.0
"""How long pods may take to be ready."""
DOWN_SECONDS: Final = 6 * 3600.0
"""How long the data of all surplus pods may take to be moved away."""
CLUSTERS: Final[tuple[KindName, ...]] = tuple(each.cluster for each in applications() if each.cluster)
_RULE: Final = "rule"
"""The value of the annotation on Pilots that this executor decommissioned."""
_LEAVING: Final = "rule-leaving"
"""Written just before the set shrinks: the write fails if the decommission was taken back."""
_DRAINING: Final = "Draining"
_in_namespace = running_in_namespace(SCALE)


@controller(
    ApplicationAction,
    also=dict.fromkeys((StatefulSet, Deployment, Pilot, Pod, *CLUSTERS), _in_namespace),
    reads=(*PAUSE_READS, *AUTOSCALERS),
    optional=frozenset(AUTOSCALERS),
    impersonate=SERVICE_ACCOUNT,
)
def workload_scale(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Give a workload the number of replicas that an action names."""
    if action.spec.get("action") != SCALE or action.deleting or is_finished(action):
        return
    workload = target_workload(action, world)
    if not isinstance(workload, Object):
        yield workload
        return
    text = str(action.at("spec", "target", "to", default=""))
    if not (text.isascii() and text.isdigit()):
        message = f"spec.target.to: {text!r} is not a number of replicas"
        yield finished(action, "Failed", "InvalidTarget", message, now=world.now)
        return
    to = int(text)
    fields = fields_of(workload, world.find)
    if isinstance(fields, NoFields):
        yield finished(action, "Declined", "NoField", fields.because, now=world.now)
    elif by := autoscaler_of(fields, world.all):
        message = f"an autoscaler has the replicas of {workload.kind} {workload.name}: {by}"
        yield finished(action, "Declined", "Autoscaled", message, now=world.now)
    elif fields.pools is None and _shrinks(action, fields, to):
        yield from _shrink(action, fields, to, world)
    else:
        if fields.pools is None and pause_under_way(action, fields.owner, world) is None:
            # An earlier action decommissioned them, and they are wanted again.
            yield from _take_back(workload, to, world)
        change = _change(fields, to)
        yield from change_field(action, change, _progress(fields, to), world)


def _shrinks(action: Object, fields: WorkloadFields, to: int) -> bool:
    before = str(action.at("status", "before", "value", default="")) or str(fields.replicas)
    return before.isdigit() and int(before) > to


def _change(fields: WorkloadFields, to: int) -> FieldChange:
    return FieldChange(
        fields.owner,
        fields.name_of("replicas"),
        fields.path_of("replicas"),
        str(fields.replicas),
        str(to),
        fields.scaled(to),
    )


def _progress(fields: WorkloadFields, to: int) -> ChangeProgress:
    workload = fields.workload
    status = workload.status
    there, ready = int(status.get("replicas") or 0), int(status.get("readyReplicas") or 0)
    seen = int(status.get("observedGeneration") or 0) >= workload.generation
    done = seen and int(workload.spec.get("replicas", 1)) == to == there == ready
    if done:
        message = f"{workload.kind} {workload.name} has {to} ready replicas"
    else:
        message = (
            f"{workload.kind} {workload.name} has {there} replicas, {ready} of them ready; {to} are wanted"
        )
    seconds = DOWN_SECONDS if there > to else UP_SECONDS
    return ChangeProgress(done, message, "Scaled", seconds)


def _shrink(action: Object, fields: WorkloadFields, to: int, world: Snapshot) -> Iterator[Intent]:
    """Remove pods one by one, the highest first, each when its Pilot has drained it."""
    now, workload, replicas = world.now, fields.workload, fields.replicas
    if action.status.get("phase") != "Running":
        if str(action.at("spec", "target", "from", default="")) != str(replicas):
            yield from change_field(action, _change(fields, to), _progress(fields, to), world)
        elif why := _why_not_drained(workload, replicas, to, world):
            yield finished(action, "Declined", "OnlyUp", why, now=now)
        elif pause := pause_of(action, workload, world):
            yield pause
        else:
            value = {"value": str(replicas)}
            message = f"{workload.kind} {workload.name} shrinks from {replicas} to {to} replicas"
            yield running(action, _DRAINING, message, now=now, attempts=1, before=value, after=value)
            yield from _drain(action, workload, replicas, world)
        return
    last = int(action.at("status", "after", "value", default=str(replicas)))
    if replicas not in (last, last - 1) or replicas < to:
        yield from _take_back(workload, replicas, world)
        yield undone(action, _change(fields, to), world)
    elif (action.moment("status", "startTime") or now) + DOWN_SECONDS <= now:
        message = f"{workload.kind} {workload.name} has {replicas} replicas and could not be drained in time"
        yield from _take_back(workload, replicas, world)
        yield finished(action, "Failed", "NotInTime", message, now=now, event="NotInTime")
    elif _is_terminating(workload, replicas, _before(action, to), world):
        message = f"waiting for pods of {workload.kind} {workload.name} above {replicas} to terminate"
        yield running(action, _DRAINING, message, now=now, after={"value": str(replicas)})
        yield _wait(action, workload, message, now)
    elif replicas != last:
        # The write of the set was the last thing before a restart.
        message = f"{workload.kind} {workload.name} has {replicas} replicas"
        yield running(action, _DRAINING, message, now=now, after={"value": str(replicas)})
        yield RequeueAfter(0.0, because=message)
    elif replicas > to and (pause := pause_under_way(action, workload, world)):
        message = f"{workload.kind} {workload.name} has {replicas} replicas; {pause.because}"
        yield running(action, _DRAINING, message, now=now)
        yield pause
    elif replicas > to:
        yield from _drain(action, workload, replicas, world)
    else:
        # Their Pilots stay for a while: a pod of that name that somebody asks for is to serve.
        yield from _put_in_service(workload, range(to, _before(action, to)), "its pod is removed", world)
        yield from change_field(action, _change(fields, to), _progress(fields, to), world)


def _is_terminating(workload: Object, replicas: int, before: int, world: Snapshot) -> bool:
    """Whether there are pods above the replicas. The number in the status may lack another pod, which is
    replaced meanwhile."""
    names = (f"{workload.name}-{ordinal}" for ordinal in range(replicas, before))
    return int(workload.status.get("replicas") or 0) != replicas or any(
        world.find(Pod, workload.namespace, name) is not None for name in names
    )


def _before(action: Object, to: int) -> int:
    return int(action.at("status", "before", "value", default=str(to)))


def _drain(action: Object, workload: Object, replicas: int, world: Snapshot) -> Iterator[Intent]:
    """The next step for the pod of the highest ordinal."""
    name, now = f"{workload.name}-{replicas - 1}", world.now
    pilot = world.find(Pilot, workload.namespace, name)
    if pilot is None:
        message = f"{name} has no Pilot, so what it holds is unknown"
        yield running(action, _DRAINING, message, now=now)
        yield _wait(action, workload, message, now)
        return
    if not pilot.spec.get("decommission"):
        fields = {"metadata": {"annotations": {DECOMMISSIONED_FOR: _RULE}}, "spec": {"decommission": True}}
        because = f"rule {action.spec.get('rule')} removes {name}: its data is moved away first"
        yield PatchObject(pilot, fields, exact=True, because=because, event="Decommission")
        return
    said = pilot.condition("Decommissioned") or {}
    if said.get("status") != "True" or said.get("observedGeneration") != pilot.generation:
        message = f"{name} is removed when it is empty: {said.get('message') or 'it has not reported yet'}"
        yield running(action, _DRAINING, message, now=now)
        yield _wait(action, workload, message, now)
        return
    because = f"rule {action.spec.get('rule')} scales it from {replicas} to {replicas - 1}: {name} is empty"
    mark = {"metadata": {"annotations": {DECOMMISSIONED_FOR: _LEAVING}}}
    yield PatchObject(pilot, mark, exact=True, because=f"{name} is drained and is removed")
    yield PatchObject(
        workload, {"spec": {"replicas": replicas - 1}}, exact=True, because=because, event="Scale"
    )
    message = f"{name} is empty and removed"
    yield running(action, _DRAINING, message, now=now, after={"value": str(replicas - 1)})


def _why_not_drained(workload: Object, replicas: int, to: int, world: Snapshot) -> str:
    """Why the set is only scaled up; empty if all surplus pods have Pilots."""
    names = [f"{workload.name}-{ordinal}" for ordinal in range(to, replicas)]
    without = [name for name in names if world.find(Pilot, workload.namespace, name) is None]
    if workload.noun == StatefulSet and not without:
        return ""
    last = without[-1] if workload.noun == StatefulSet else "its last pods"
    return f"{workload.kind} {workload.name} is only scaled up: no Pilot drains what {last} holds"


def _take_back(workload: Object, replicas: int, world: Snapshot) -> Iterator[Intent]:
    """Recommission the pods that stay."""
    yield from _put_in_service(workload, range(replicas), "it stays", world)


def _put_in_service(workload: Object, ordinals: range, because: str, world: Snapshot) -> Iterator[Intent]:
    """Recommission those that an action has decommissioned."""
    for ordinal in ordinals:
        pilot = world.find(Pilot, workload.namespace, f"{workload.name}-{ordinal}")
        if pilot is not None and pilot.annotations.get(DECOMMISSIONED_FOR) in (_RULE, _LEAVING):
            yield _recommission(pilot, f"{pilot.name}: {because}")


def _recommission(pilot: Object, because: str) -> PatchObject:
    fields = {"metadata": {"annotations": {DECOMMISSIONED_FOR: None}}, "spec": {"decommission": False}}
    return PatchObject(pilot, fields, because=because, event="Recommission")


def _wait(action: Object, workload: Object, message: str, now: float) -> Wait:
    left = (action.moment("status", "startTime") or now) + DOWN_SECONDS - now
    remedy = f"kubectl describe pilots -n {workload.namespace}"
    return Wait(_DRAINING, because=message, remedy=remedy, seconds=max(left, 1.0))
