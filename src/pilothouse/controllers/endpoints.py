"""The endpoints of a service: the addresses of its pods, in an Endpoints object and in EndpointSlices.

In slices each selected pod with an address says whether it is *ready*, *serving* (ready, even if terminating)
and *terminating*; the older Endpoints object has ready addresses and others. ``publishNotReadyAddresses``
counts every pod as ready: the names of a database's members have to resolve before they are. Addresses are
sorted and slices numbered, so that a change of pods that changes no address writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any, Final, NamedTuple

from pilothouse.api.kind_names import Endpoints, EndpointSlice, Pod, Service
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.meta.selectors import LabelSelector
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Create, Delete, Intent, Update
from pilothouse.runtime.snapshot import Snapshot

MOST: Final = 100
"""Addresses in a slice."""
MANAGER: Final = "endpointslice-controller.k8s.io"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_OF_SERVICE: Final = "kubernetes.io/service-name"
_HEADLESS: Final = "service.kubernetes.io/headless"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_MOST_IN_ALL: Final = 1000


def services_of_pod(pod: Object, world: Snapshot) -> Names:
    for service in world.all(Service, pod.namespace):
        selector = service.spec.get("selector")
        if selector and all(pod.labels.get(key) == value for key, value in selector.items()):
            yield service.namespace, service.name


def service_of_slice(slice: Object, world: Snapshot) -> Names:
    if name := slice.labels.get(_OF_SERVICE):
        yield slice.namespace, name


class ServicePod(NamedTuple):
    pod: Object
    address: str
    ready: bool
    serving: bool
    terminating: bool


@controller(
    Service,
    also={Pod: services_of_pod, EndpointSlice: service_of_slice, Endpoints: lambda one, _: [one.key]},
    standalone=True,
)
def endpoints(service: Object, world: Snapshot) -> Iterator[Intent]:
    """Keep the endpoints of a service up to date with the pods that it selects."""
    selector = service.spec.get("selector")
    if service.deleting or not selector or service.spec.get("type") == "ExternalName":
        return
    pods = world.all(Pod, service.namespace, LabelSelector.from_object({"matchLabels": selector}))
    members = list(_members(service, pods))
    yield from _object(service, members, world)
    yield from _slices(service, members, world)


def _members(service: Object, pods: Sequence[Object]) -> Iterator[ServicePod]:
    everyone = bool(service.spec.get("publishNotReadyAddresses"))
    for pod in pods:
        address = _ipv4(pod)
        if not address or pod.at("status", "phase") in ("Succeeded", "Failed"):
            continue
        serving = pod.is_true("Ready")
        ready = everyone or (serving and not pod.deleting)
        yield ServicePod(pod, address, ready, everyone or serving, pod.deleting)


def _ipv4(pod: Object) -> str:
    """Empty if it has none: slices are of one family."""
    listed = (str(one.get("ip", "")) for one in pod.at("status", "podIPs", default=()))
    for text in (str(pod.at("status", "podIP", default="")), *listed):
        try:
            return str(IPv4Address(text))
        except ValueError:
            continue
    return ""


def _slices(service: Object, members: Sequence[ServicePod], world: Snapshot) -> Iterator[Intent]:
    """Slices of at most a hundred addresses that share their ports."""
    labels = {_OF_SERVICE: service.name, _MANAGED_BY: MANAGER}
    if service.spec.get("clusterIP") == "None":
        labels[_HEADLESS] = ""
    wanted: dict[str, Tree] = {}
    for ports, group in _by_ports(service, members):
        for start in range(0, len(group), MOST):
            name = f"{service.name}-{len(wanted)}"
            wanted[name] = {
                "apiVersion": EndpointSlice.api_version,
                "kind": EndpointSlice.kind,
                "metadata": {
                    "name": name,
                    "namespace": service.namespace,
                    "labels": {**service.labels, **labels},
                    "ownerReferences": [owner_reference(service)],
                },
                "addressType": "IPv4",
                "ports": ports,
                "endpoints": [_endpoint(member, service.name) for member in group[start : start + MOST]],
            }
    there = {
        one.name: one
        for one in world.owned(EndpointSlice, service)
        if one.labels.get(_MANAGED_BY) == MANAGER and not one.deleting
    }
    for name, tree in wanted.items():
        because = f"service {service.name} has {len(members)} pods"
        yield from _ensure(there.get(name), tree, ("ports", "endpoints"), because)
    for name, one in there.items():
        if name not in wanted:
            yield Delete(one, because=f"service {service.name} has fewer pods")


def _object(service: Object, members: Sequence[ServicePod], world: Snapshot) -> Iterator[Intent]:
    """The Endpoints object with all addresses, for older clients."""
    subsets = []
    for ports, group in _by_ports(service, members[:_MOST_IN_ALL]):
        addresses = [_address(member, service.name) for member in group if member.ready]
        others = [
            _address(member, service.name) for member in group if not member.ready and not member.terminating
        ]
        listed = {"addresses": addresses, "notReadyAddresses": others}
        subset: Tree = {name: found for name, found in listed.items() if found}
        if subset:
            named = [{key: value for key, value in port.items() if value != ""} for port in ports]
            subsets.append({**subset, "ports": named} if named else subset)
    meta: Tree = {"name": service.name, "namespace": service.namespace, "labels": dict(service.labels)}
    if service.spec.get("clusterIP") == "None":
        meta["labels"][_HEADLESS] = ""
    if len(members) > _MOST_IN_ALL:
        meta["annotations"] = {_OVER_CAPACITY: "truncated"}
    tree = {
        "apiVersion": Endpoints.api_version,
        "kind": Endpoints.kind,
        "metadata": meta,
        "subsets": subsets,
    }
    found = world.find(Endpoints, service.namespace, service.name)
    yield from _ensure(found, tree, ("subsets",), f"service {service.name} has {len(members)} pods")


def _ensure(found: Object | None, tree: Tree, fields: Sequence[str], because: str) -> Iterator[Intent]:
    """Create or update an object, if it differs."""
    if found is None:
        yield Create(tree, because=because)
        return
    labels = tree["metadata"].get("labels", {})
    same = all((found.get(field) or []) == tree[field] for field in fields)
    if same and dict(found.labels) == labels:
        return
    changed = {field: tree[field] for field in fields}
    yield Update(
        found, {**found.tree, "metadata": {**found.meta, "labels": labels}, **changed}, because=because
    )


def _by_ports(service: Object, members: Sequence[ServicePod]) -> list[tuple[list[Tree], list[ServicePod]]]:
    """Members by their ports: a named target port may have another number in each pod."""
    groups: dict[tuple[tuple[Any, ...], ...], tuple[list[Tree], list[ServicePod]]] = {}
    for member in members:
        ports = _ports(service, member.pod)
        key = tuple(tuple(sorted(port.items())) for port in ports)
        groups.setdefault(key, (ports, []))[1].append(member)
    ordered = [groups[key] for key in sorted(groups)]
    for _, group in ordered:
        group.sort(key=lambda member: (member.address, member.pod.name))
    return ordered


def _ports(service: Object, pod: Object) -> list[Tree]:
    found = []
    for port in service.spec.get("ports") or ():
        number = _target(port, pod)
        if number is not None:
            entry = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
            if port.get("appProtocol"):
                entry["appProtocol"] = port["appProtocol"]
            found.append(entry)
    return found


def _target(port: Mapping[str, Any], pod: Object) -> int | None:
    """The number of the pod's port for a service's port; None if the pod has no port of that name."""
    target = port.get("targetPort") or port.get("port")
    if isinstance(target, int):
        return target
    containers = [
        *pod.spec.get("containers", ()),
        *(one for one in pod.spec.get("initContainers") or () if one.get("restartPolicy") == "Always"),
    ]
    for container in containers:
        for each in container.get("ports") or ():
            if each.get("name") == target and each.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return int(each["containerPort"])
    return None


def _endpoint(member: ServicePod, service: str) -> Tree:
    conditions = {"ready": member.ready, "serving": member.serving, "terminating": member.terminating}
    return {"addresses": [member.address], "conditions": conditions, **_target_of(member.pod, service)}


def _address(member: ServicePod, service: str) -> Tree:
    return {"ip": member.address, **_target_of(member.pod, service)}


def _target_of(pod: Object, service: str) -> Tree:
    """The pod behind an address, its node, and its DNS name if this is its governing service."""
    target: Tree = {
        "targetRef": {"kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    }
    if node := pod.spec.get("nodeName"):
        target["nodeName"] = node
    if pod.spec.get("subdomain") == service and (hostname := pod.spec.get("hostname")):
        target["hostname"] = str(hostname)
    return target
