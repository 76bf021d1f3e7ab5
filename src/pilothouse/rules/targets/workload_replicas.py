"""``workload/scale``: how many replicas a workload is to have.

They are set where the topmost owner has the field: a cluster's pool, or the StatefulSet or Deployment itself.
A cluster's controller drains its nodes before it removes them, and so does a Pilot; anything else is only
scaled up, since what its last pods hold is not known.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.applications.autoscalers import AUTOSCALERS, autoscaler_of
from pilothouse.api.applications.registry import applications
from pilothouse.api.applications.workload_fields import WORKLOADS, NoFields, WorkloadFields, fields_of
from pilothouse.api.kind_names import KindName, Pilot
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import (
    ActionTarget,
    ObjectLookup,
    TargetDeclined,
    TargetNotReady,
    TargetResult,
)
from pilothouse.rules.targets.bounded_count import bounded

CLUSTERS: Final[tuple[KindName, ...]] = tuple(each.cluster for each in applications() if each.cluster)
"""The kinds of clusters of all applications."""
READS: Final[tuple[KindName, ...]] = (*WORKLOADS, Pilot, *CLUSTERS, *AUTOSCALERS)


def workload_replicas(action: RuleAction, workload: Object, world: ObjectLookup) -> TargetResult:
    """The number of replicas, and the field that has it."""
    fields = fields_of(workload, world.find)
    if isinstance(fields, NoFields):
        return TargetDeclined(fields.because)
    if by := autoscaler_of(fields, world.all):
        because = f"an autoscaler has the replicas of {workload.kind} {workload.name}: {by}"
        return TargetDeclined(f"{because}; change its bounds instead")
    found = fields.replicas
    if why := _why_in_progress(fields):
        return TargetNotReady(why)
    to = bounded(found, action.params, absolute="replicas", what="replicas")
    if isinstance(to, TargetDeclined):
        return to
    if to < found and (why := _why_only_up(fields, to, world)):
        return TargetDeclined(why)
    target = {"from": str(found), "to": str(to), "owner": fields.owner_name}
    return ActionTarget({**target, "field": fields.name_of("replicas")})


def _why_in_progress(fields: WorkloadFields) -> str:
    """Why the replicas are not what the spec says, so that nothing can be built upon them yet."""
    workload, found = fields.workload, fields.replicas
    said = int(workload.spec.get("replicas", 1))
    if said != found or int(workload.status.get("replicas") or 0) != said:
        return f"{fields.owner_name} asks for {found} replicas and has not got them yet: it is being scaled"
    return ""


def _why_only_up(fields: WorkloadFields, to: int, world: ObjectLookup) -> str:
    """Why the workload can't be scaled down; empty if what it holds is drained first."""
    if fields.pools is not None:
        return ""
    workload = fields.workload
    names = [f"{workload.name}-{ordinal}" for ordinal in range(to, fields.replicas)]
    without = [name for name in names if world.find(Pilot, workload.namespace, name) is None]
    if workload.kind != "StatefulSet" or without:
        missing = f" ({without[-1]} has none)" if workload.kind == "StatefulSet" else ""
        return (
            f"{workload.kind} {workload.name} is only scaled up: no Pilot drains what its last pods "
            f"hold{missing}"
        )
    return ""
