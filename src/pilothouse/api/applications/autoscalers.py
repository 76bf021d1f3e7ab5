"""Autoscalers that have a workload's replicas: no rule scales it beside them.

    autoscaler_of(fields, world.all)        # "ScaledObject web", "" if there is none

By their ``scaleTargetRef``, whether or not they have acted yet; or by the field manager of the replicas, if
an autoscaler that is not seen has set them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pilothouse.api.applications.workload_fields import WorkloadFields
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object

HorizontalPodAutoscaler: Final = KindName(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"
)
ScaledObject: Final = KindName("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
AUTOSCALERS: Final = (HorizontalPodAutoscaler, ScaledObject)
"""A server need not serve them."""
_MANAGERS: Final = ("kube-controller-manager", "keda-operator")
"""Field managers of ``spec.replicas``: the first sets it for HorizontalPodAutoscalers and nothing else."""
_GROUP, _KIND = "apps", "Deployment"
"""Of a reference that names none."""


def autoscaler_of(fields: WorkloadFields, of_kind: Callable[[KindName, str], Sequence[Object]]) -> str:
    """The autoscaler, as a sentence names it; empty if there is none. ``of_kind`` lists a namespace."""
    scaled = (fields.workload, fields.owner)
    for noun in AUTOSCALERS:
        for one in of_kind(noun, fields.workload.namespace):
            reference = one.at("spec", "scaleTargetRef", default={})
            if one.namespace == fields.workload.namespace and any(_names(reference, each) for each in scaled):
                return f"{one.kind} {one.name}"
    managers = fields.workload.managers("spec", "replicas")
    manager = next((each for each in managers if each in _MANAGERS), "")
    return f"the field manager {manager}" if manager else ""


def _names(reference: Any, one: Object) -> bool:
    group = str(reference.get("apiVersion") or f"{_GROUP}/v1").rpartition("/")[0]
    found = group, str(reference.get("kind") or _KIND), reference.get("name")
    return found == (one.noun.group, one.kind, one.name)
