"""The objects that rules are about: of which kinds they are, and what their records are called.

    kinds_of("workload")            # StatefulSet, Deployment
    types_of(stateful_set)          # workload; application too, unless a cluster of ours owns it
    subject_of(claim)               # pvc-…, the name of its volume

| type | kind |
|---|---|
| volume | a bound PersistentVolumeClaim |
| pod | Pod, until it has ended |
| workload | StatefulSet, Deployment |
| application | a cluster of a registered application; a workload that no such cluster owns |
| storagepool | StoragePool |
| node | Node |

Records are in the namespace of the object, those of cluster-wide objects in ``kube-system``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from pilothouse.api.applications.autoscalers import AUTOSCALERS
from pilothouse.api.applications.registry import application_of_owner, applications
from pilothouse.api.kind_names import (
    Deployment,
    KindName,
    Node,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StoragePool,
)
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import CLUSTER_WIDE_RECORDS, object_type
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.rules.action_targets import is_bound

WORKLOADS: Final = (StatefulSet, Deployment)
_TYPE_OF: Final[Mapping[KindName, str]] = {
    PersistentVolumeClaim: "volume",
    Pod: "pod",
    StoragePool: "storagepool",
    Node: "node",
}
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@cache
def cluster_kinds() -> tuple[KindName, ...]:
    """The kinds of the clusters of registered applications."""
    return tuple(dict.fromkeys(one.cluster for one in applications() if one.cluster is not None))


@cache
def kinds_of(type_: str) -> tuple[KindName, ...]:
    """The kinds of the objects of a type; none for a type that no rule can be about."""
    if type_ == "workload":
        return WORKLOADS
    if type_ == "application":
        return (*cluster_kinds(), *WORKLOADS)
    return tuple(kind for kind, type_of_kind in _TYPE_OF.items() if type_of_kind == type_)


@cache
def ruled_kinds() -> tuple[KindName, ...]:
    """All kinds that rules can be about."""
    return tuple(dict.fromkeys((*_TYPE_OF, *WORKLOADS, *cluster_kinds())))


@cache
def optional_kinds() -> frozenset[KindName]:
    """Those that a server need not serve."""
    return frozenset({StoragePool, *cluster_kinds(), *AUTOSCALERS})


def types_of(one: Object) -> tuple[str, ...]:
    """What an object is to rules."""
    if one.noun in WORKLOADS:
        return ("workload",) if application_of_owner(one.controller) else ("workload", "application")
    if one.noun in cluster_kinds():
        return ("application",)
    found = _TYPE_OF.get(one.noun)
    return (found,) if found else ()


def type_of_rule(spec: AutopilotRuleSpec) -> str:
    """What a rule is about: what it says, else the type of object of its first action."""
    if spec.object is not None:
        return spec.object
    actions = spec.actions or next((one.actions for one in spec.candidates), ())
    return object_type(actions[0].name) if actions else ""


def is_present(one: Object) -> bool:
    """Whether rules look at it: a claim has to have a volume, and a pod must not have ended."""
    if one.noun == PersistentVolumeClaim:
        return is_bound(one)
    return one.noun != Pod or one.at("status", "phase") not in _ENDED


def subject_of(one: Object) -> str:
    """What its records are named after: the volume of a claim, else the object; kinds of one type differ."""
    if one.noun == PersistentVolumeClaim:
        return str(one.spec.get("volumeName", ""))
    if one.noun in (Deployment, *cluster_kinds()):
        return f"{one.kind.lower()}.{one.name}"
    return one.name


def records_of(one: Object) -> str:
    """The namespace of its records."""
    return one.namespace or CLUSTER_WIDE_RECORDS


def full_name(one: Object) -> str:
    """For people: ``namespace/name``, or the name of a cluster-wide object."""
    return f"{one.namespace}/{one.name}" if one.namespace else one.name
