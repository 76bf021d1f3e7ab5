"""``openstorage.io.action.workload/resources``: gives a container an exact amount of CPU or memory.

    spec:
      action: openstorage.io.action.workload/resources
      object: {kind: StatefulSet, name: db, uid: …}
      target: {container: db, resource: memory, from: 1Gi, to: 1536Mi, owner: …, field: …}

The amount is the limit, or the request where there is no limit; the request changes in proportion to the
limit, and so does the heap of a pool that sets one. It is written once, where the topmost owner has it:
a cluster's controller rolls its nodes one at a time through its restart gate, and a StatefulSet rolls as in
Kubernetes. It is done when all pods are ready and run with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from pilothouse.api.applications.workload_fields import NoFields, WorkloadFields, fields_of
from pilothouse.api.kind_names import ApplicationAction, Deployment, Pilot, Pod, StatefulSet
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import RESOURCES
from pilothouse.api.pod_health import healthy
from pilothouse.base.quantity import BINARY, NANO, Quantity, parse_quantity
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS
from pilothouse.controllers.application_actions.action_status import SERVICE_ACCOUNT, finished, is_finished
from pilothouse.controllers.application_actions.field_change import (
    ChangeProgress,
    FieldChange,
    change_field,
    running_in_namespace,
)
from pilothouse.controllers.application_actions.target_workload import target_workload
from pilothouse.controllers.application_actions.workload_scale import CLUSTERS
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent
from pilothouse.runtime.snapshot import Snapshot

ROLL_SECONDS: Final = 6 * 3600.0
"""How long the roll may take."""
_MEBIBYTE: Final = 1024 * 1024
_in_namespace = running_in_namespace(RESOURCES)


@controller(
    ApplicationAction,
    also=dict.fromkeys((StatefulSet, Deployment, Pod, *CLUSTERS), _in_namespace),
    reads=(Pilot, *PAUSE_READS),
    impersonate=SERVICE_ACCOUNT,
)
def workload_resources(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Give a container the amount of a resource that an action names."""
    if action.spec.get("action") != RESOURCES or action.deleting or is_finished(action):
        return
    workload = target_workload(action, world)
    if not isinstance(workload, Object):
        yield workload
        return
    target = action.at("spec", "target", default={})
    resource = str(target.get("resource", ""))
    try:
        before, to = parse_quantity(target.get("from", "")), parse_quantity(target.get("to", ""))
    except ValueError as problem:
        yield finished(action, "Failed", "InvalidTarget", f"spec.target: {problem}", now=world.now)
        return
    if before.nanos <= 0 or to.nanos <= 0 or resource not in ("cpu", "memory"):
        message = "spec.target: from and to must be above zero, and resource cpu or memory"
        yield finished(action, "Failed", "InvalidTarget", message, now=world.now)
        return
    fields = fields_of(workload, world.find)
    if isinstance(fields, NoFields):
        yield finished(action, "Declined", "NoField", fields.because, now=world.now)
        return
    container = fields.container(str(target.get("container", "")))
    if isinstance(container, NoFields):
        yield finished(action, "Declined", "NoField", container.because, now=world.now)
        return
    found = fields.resources(container)
    change = FieldChange(
        fields.owner,
        f"{resource} in {fields.name_of(container)}",
        fields.path_of(container),
        _text(amount(found, resource)),
        _text(to),
        _patch(fields, container, resource, Fraction(to.nanos, before.nanos), to),
    )
    yield from change_field(action, change, _progress(fields, container, resource, to, world), world)


def amount(resources: Mapping[str, Any], resource: str) -> Quantity | None:
    """The limit, or the request where there is no limit."""
    for part in ("limits", "requests"):
        if (found := (resources.get(part) or {}).get(resource)) is not None:
            return parse_quantity(found)
    return None


def _patch(fields: WorkloadFields, container: str, resource: str, factor: Fraction, to: Quantity) -> Tree:
    resources = fields.resources(container)
    limited = resource in (resources.get("limits") or {})
    changed: Tree = {
        name: dict(amounts) for name, amounts in resources.items() if isinstance(amounts, Mapping)
    }
    changed = {**resources, **changed}
    if limited:
        changed["limits"][resource] = str(to)
    request = (resources.get("requests") or {}).get(resource)
    if request is not None:
        scaled = min(_rounded(parse_quantity(request), factor, resource), to) if limited else to
        changed["requests"][resource] = str(scaled)
    heap = ""
    if resource == "memory" and fields.heap:
        heap = str(_rounded(parse_quantity(fields.heap), factor, resource))
    return fields.resized(container, changed, heap)


def _rounded(found: Quantity, factor: Fraction, resource: str) -> Quantity:
    """In whole mebibytes or thousandths, and at least one."""
    step = _MEBIBYTE * NANO if resource == "memory" else NANO // 1000
    scaled = Fraction(found.nanos) * factor / step
    return Quantity(max(1, round(scaled)) * step, BINARY if resource == "memory" else found.family)


def _progress(
    fields: WorkloadFields, container: str, resource: str, to: Quantity, world: Snapshot
) -> ChangeProgress:
    workload = fields.workload
    wanted = int(workload.spec.get("replicas", 1))
    if workload.noun == Deployment:
        status = workload.status
        seen = int(status.get("observedGeneration") or 0) >= workload.generation
        there = int(status.get("updatedReplicas") or 0) if seen else 0
        settled = there == wanted == int(status.get("readyReplicas") or 0) == int(status.get("replicas") or 0)
    else:
        pods = world.owned(Pod, workload)
        there = sum(_has(pod, container, resource, to) and healthy(pod) for pod in pods)
        settled = there == wanted == len(pods)
    message = f"{there} of {wanted} pods of {workload.kind} {workload.name} run with {to} of {resource}"
    return ChangeProgress(settled, message, "Resized", ROLL_SECONDS)


def _has(pod: Object, container: str, resource: str, to: Quantity) -> bool:
    found = [each for each in pod.spec.get("containers") or () if each.get("name") == container]
    return any(amount(each.get("resources") or {}, resource) == to for each in found)


def _text(found: Quantity | None) -> str:
    return str(found) if found is not None else ""
