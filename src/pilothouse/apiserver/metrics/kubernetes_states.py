"""Kubernetes' own kinds as figures, by the names and labels of kube-state-metrics: what dashboards and alerts
for stateful applications ask for. Views by the path of the kind's collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pilothouse.apiserver.metrics.object_states import (
    STATUSES,
    KindMetrics,
    Measure,
    Sample,
    conditions,
    controller,
    created,
    deleted,
    generation,
    moment,
    number,
    observed_generation,
    part,
    states,
)
from pilothouse.base.prometheus_text import labels, quoted
from pilothouse.base.quantity import QuantityError, parse_quantity
from pilothouse.meta.kind import Object

_POD_PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_CLAIM_PHASES = ("Lost", "Bound", "Pending")
_VOLUME_PHASES = ("Pending", "Available", "Bound", "Released", "Failed")
_UNITS = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte", "storage": "byte"}


def views() -> Mapping[str, KindMetrics]:
    """The kinds that have metrics, by path."""
    return {
        "pods": _pods(),
        "apps/statefulsets": _stateful_sets(),
        "persistentvolumeclaims": _claims(),
        "persistentvolumes": _volumes(),
        "nodes": _nodes(),
        "namespaces": _namespaces(),
    }


def _pods() -> KindMetrics:
    return KindMetrics(
        _named("pod"),
        (
            Measure("kube_pod_info", "A pod, where it runs and who made it.", _pod_info),
            Measure("kube_pod_created", "When it was created.", created),
            Measure("kube_pod_start_time", "When it was taken on by its node.", _at("status", "startTime")),
            Measure("kube_pod_deletion_timestamp", "When its deletion was requested.", deleted),
            Measure("kube_pod_owner", "Who owns it.", _owners),
            Measure("kube_pod_status_phase", "Its phase.", _phase(_POD_PHASES)),
            Measure("kube_pod_status_ready", "Whether it is ready.", _pod_condition("Ready")),
            Measure("kube_pod_status_scheduled", "Whether it has a node.", _pod_condition("PodScheduled")),
            Measure("kube_pod_container_info", "A container and its image.", _container_info),
            Measure("kube_pod_container_status_ready", "Whether it is ready.", _containers("ready")),
            Measure(
                "kube_pod_container_status_restarts_total",
                "How often it was restarted.",
                _containers("restartCount"),
                "counter",
            ),
            Measure("kube_pod_container_status_running", "Whether it runs.", _container_state("running")),
            Measure("kube_pod_container_status_waiting", "Whether it waits.", _container_state("waiting")),
            Measure(
                "kube_pod_container_status_waiting_reason", "What it waits for.", _container_reason("waiting")
            ),
            Measure(
                "kube_pod_container_status_terminated",
                "Whether it has ended.",
                _container_state("terminated"),
            ),
        ),
    )


def _stateful_sets() -> KindMetrics:
    counts = (
        ("replicas", "replicas", "Replicas that there are."),
        ("replicas_available", "availableReplicas", "Replicas that have been ready for long enough."),
        ("replicas_current", "currentReplicas", "Replicas of the current revision."),
        ("replicas_ready", "readyReplicas", "Replicas that are ready."),
        ("replicas_updated", "updatedReplicas", "Replicas of the revision that is rolled out."),
    )
    return KindMetrics(
        _named("statefulset"),
        (
            Measure("kube_statefulset_created", "When it was created.", created),
            Measure("kube_statefulset_replicas", "Replicas wanted.", _numeric("spec", "replicas")),
            *(
                Measure(f"kube_statefulset_status_{name}", help, _numeric("status", field))
                for name, field, help in counts
            ),
            Measure("kube_statefulset_metadata_generation", "How often its spec has changed.", generation),
            Measure(
                "kube_statefulset_status_observed_generation",
                "The spec that was last acted on.",
                observed_generation,
            ),
            Measure("kube_statefulset_status_current_revision", "What runs.", _revision("currentRevision")),
            Measure(
                "kube_statefulset_status_update_revision", "What is rolled out.", _revision("updateRevision")
            ),
        ),
    )


def _claims() -> KindMetrics:
    return KindMetrics(
        _named("persistentvolumeclaim"),
        (
            Measure("kube_persistentvolumeclaim_info", "A claim and its volume.", _claim_info),
            Measure("kube_persistentvolumeclaim_created", "When it was created.", created),
            Measure("kube_persistentvolumeclaim_status_phase", "Its phase.", _phase(_CLAIM_PHASES)),
            Measure(
                "kube_persistentvolumeclaim_resource_requests_storage_bytes",
                "Storage wanted.",
                _storage("spec", "resources", "requests"),
            ),
            Measure("kube_persistentvolumeclaim_status_condition", "Its conditions.", conditions),
        ),
    )


def _volumes() -> KindMetrics:
    return KindMetrics(
        lambda obj: labels(persistentvolume=obj["metadata"]["name"]),
        (
            Measure("kube_persistentvolume_created", "When it was created.", created),
            Measure("kube_persistentvolume_status_phase", "Its phase.", _phase(_VOLUME_PHASES)),
            Measure("kube_persistentvolume_capacity_bytes", "Its size.", _storage("spec", "capacity")),
            Measure("kube_persistentvolume_claim_ref", "Who has it.", _claim_ref),
        ),
    )


def _nodes() -> KindMetrics:
    return KindMetrics(
        lambda obj: labels(node=obj["metadata"]["name"]),
        (
            Measure("kube_node_info", "A machine.", _node_info),
            Measure("kube_node_created", "When it joined.", created),
            Measure("kube_node_spec_unschedulable", "Whether it takes no more pods.", _unschedulable),
            Measure("kube_node_spec_taint", "What keeps pods off it.", _taints),
            Measure("kube_node_status_condition", "Its conditions.", conditions),
            Measure("kube_node_status_capacity", "What it has.", _resources("capacity")),
            Measure("kube_node_status_allocatable", "What pods may use of it.", _resources("allocatable")),
        ),
    )


def _namespaces() -> KindMetrics:
    return KindMetrics(
        lambda obj: labels(namespace=obj["metadata"]["name"]),
        (
            Measure("kube_namespace_created", "When it was created.", created),
            Measure(
                "kube_namespace_status_phase",
                "Whether it is being deleted.",
                _phase(("Active", "Terminating")),
            ),
        ),
    )


Read = Callable[[Object], Iterable[Sample]]


def _named(label: str) -> Callable[[Object], str]:
    def name(obj: Object) -> str:
        metadata = obj["metadata"]
        return f"namespace={quoted(metadata.get('namespace', ''))},{label}={quoted(metadata['name'])}"

    return name


def _at(*path: str) -> Read:
    return lambda obj: moment(part(obj, *path[:-1]).get(path[-1]))


def _numeric(*path: str) -> Read:
    return lambda obj: number(part(obj, *path[:-1]).get(path[-1]))


def _phase(known: tuple[str, ...]) -> Read:
    return lambda obj: states("phase", part(obj, "status").get("phase"), known)


def _revision(field: str) -> Read:
    def read(obj: Object) -> Iterator[Sample]:
        if name := part(obj, "status").get(field):
            yield f",revision={quoted(name)}", 1

    return read


def _text(values: Mapping[str, Any], name: str) -> str:
    found = values.get(name)
    return found if isinstance(found, str) else ""


def _pod_info(obj: Object) -> Iterator[Sample]:
    spec, status = part(obj, "spec"), part(obj, "status")
    kind, name = controller(obj)
    more = labels(
        uid=obj["metadata"].get("uid", ""),
        node=_text(spec, "nodeName"),
        host_ip=_text(status, "hostIP"),
        pod_ip=_text(status, "podIP"),
        created_by_kind=kind,
        created_by_name=name,
        priority_class=_text(spec, "priorityClassName"),
    )
    yield f",{more}", 1


def _owners(obj: Object) -> Iterator[Sample]:
    owners = {owner.get("uid"): owner for owner in obj["metadata"].get("ownerReferences") or ()}
    for owner in owners.values():
        more = labels(
            owner_kind=_text(owner, "kind"),
            owner_name=_text(owner, "name"),
            owner_is_controller="true" if owner.get("controller") else "false",
        )
        yield f",{more}", 1


def _pod_condition(type: str) -> Read:
    def read(obj: Object) -> Iterator[Sample]:
        for condition in part(obj, "status").get("conditions") or ():
            if condition.get("type") == type:
                status = str(condition.get("status", "")).lower()
                for each in STATUSES:
                    yield f',condition="{each}"', int(each == status)
                return

    return read


def _container_statuses(obj: Object) -> Mapping[str, Mapping[str, Any]]:
    return {each["name"]: each for each in part(obj, "status").get("containerStatuses") or ()}


def _container_info(obj: Object) -> Iterator[Sample]:
    for name, status in _container_statuses(obj).items():
        more = labels(
            container=name,
            image=_text(status, "image"),
            image_id=_text(status, "imageID"),
            container_id=_text(status, "containerID"),
        )
        yield f",{more}", 1


def _containers(field: str) -> Read:
    def read(obj: Object) -> Iterator[Sample]:
        for name, status in _container_statuses(obj).items():
            yield f",container={quoted(name)}", int(status.get(field) or 0)

    return read


def _container_state(state: str) -> Read:
    def read(obj: Object) -> Iterator[Sample]:
        for name, status in _container_statuses(obj).items():
            yield f",container={quoted(name)}", int(state in part(status, "state"))

    return read


def _container_reason(state: str) -> Read:
    def read(obj: Object) -> Iterator[Sample]:
        for name, status in _container_statuses(obj).items():
            if reason := _text(part(status, "state", state), "reason"):
                yield f",container={quoted(name)},reason={quoted(reason)}", 1

    return read


def _claim_info(obj: Object) -> Iterator[Sample]:
    spec = part(obj, "spec")
    more = labels(
        storageclass=_text(spec, "storageClassName"),
        volumename=_text(spec, "volumeName"),
        volumemode=_text(spec, "volumeMode"),
    )
    yield f",{more}", 1


def _claim_ref(obj: Object) -> Iterator[Sample]:
    if claim := part(obj, "spec", "claimRef"):
        more = labels(name=_text(claim, "name"), claim_namespace=_text(claim, "namespace"))
        yield f",{more}", 1


def _node_info(obj: Object) -> Iterator[Sample]:
    facts = part(obj, "status", "nodeInfo")
    addresses = part(obj, "status").get("addresses") or ()
    internal = next((each.get("address", "") for each in addresses if each.get("type") == "InternalIP"), "")
    more = labels(
        kernel_version=_text(facts, "kernelVersion"),
        os_image=_text(facts, "osImage"),
        container_runtime_version=_text(facts, "containerRuntimeVersion"),
        kubelet_version=_text(facts, "kubeletVersion"),
        system_uuid=_text(facts, "systemUUID"),
        pod_cidr=_text(part(obj, "spec"), "podCIDR"),
        provider_id=_text(part(obj, "spec"), "providerID"),
        internal_ip=internal,
    )
    yield f",{more}", 1


def _unschedulable(obj: Object) -> Iterator[Sample]:
    yield "", int(bool(part(obj, "spec").get("unschedulable")))


def _taints(obj: Object) -> Iterator[Sample]:
    taints = {(each.get("key"), each.get("effect")): each for each in part(obj, "spec").get("taints") or ()}
    for taint in taints.values():
        more = labels(key=_text(taint, "key"), value=_text(taint, "value"), effect=_text(taint, "effect"))
        yield f",{more}", 1


def _resources(field: str) -> Read:
    def read(obj: Object) -> Iterator[Sample]:
        for name, amount in part(obj, "status", field).items():
            for _, value in _quantity(amount):
                # As kube-state-metrics writes them: hugepages-2Mi is hugepages_2Mi.
                resource = name.replace("-", "_").replace(".", "_").replace("/", "_")
                yield f",resource={quoted(resource)},unit={quoted(_UNITS.get(name, 'integer'))}", value

    return read


def _storage(*path: str) -> Read:
    return lambda obj: _quantity(part(obj, *path).get("storage"))


def _quantity(amount: Any) -> Iterator[Sample]:
    if isinstance(amount, str | int | float):
        try:
            yield "", parse_quantity(amount).to_float()
        except QuantityError:
            return
