"""The backends of services: which address and port of this machine leads to which endpoints.

    table = backends(services, slices, pods, node="m1", addresses=("10.0.0.1", "127.0.0.1"))
    table[ListenAddress("127.96.3.7", 5432)]   # Backend(owner, "shop/db:sql", (ServiceEndpoint(…),))

A service's cluster IP leads to its endpoints, its node ports do so at the node's addresses, and a pod's host
port leads to the pod. Endpoints are those that are ready, or if none is, those that terminate and still
serve. The policy ``Local`` selects the endpoints on this node. Without endpoints there is no entry, so that
connections are refused.

Only TCP is forwarded; ``unserved`` reports other ports, ``misplaced`` services with addresses that none may
have: the agent may be root, and must not listen wherever a Service says.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Any, Final, NamedTuple

from pilothouse.api.objects import Object
from pilothouse.node.addresses.dns_names import HEADLESS, OF_SERVICE

_THREE_HOURS: Final = 10800
_ANY: Final = ("", "0.0.0.0", "::")
_LOOPBACK: Final = "127."


class ListenAddress(NamedTuple):
    address: str
    port: int


class ServiceEndpoint(NamedTuple):
    address: str
    port: int


class PortOwner(NamedTuple):
    kind: str
    namespace: str
    name: str


class Backend(NamedTuple):
    owner: PortOwner
    name: str
    """For messages: namespace/service:port, or the pod."""
    endpoints: tuple[ServiceEndpoint, ...]
    affinity: int = 0
    """Seconds after its last connection in which a client gets the same endpoint; 0 for any."""
    created: float = 0.0
    """The creation time of its owner, in seconds since 1970."""


def backends(
    services: Iterable[Object],
    slices: Iterable[Object],
    pods: Mapping[str, Object],
    *,
    node: str,
    addresses: Sequence[str],
) -> dict[ListenAddress, Backend]:
    """The whole table. ``pods`` are those of this node by address, ``addresses`` the node's own. Of two
    owners of the same address and port, the first by name gets it."""
    by_service: dict[tuple[str, str], list[Object]] = {}
    for each in slices:
        if each.get("addressType") == "IPv4":
            by_service.setdefault((each.namespace, each.labels.get(OF_SERVICE, "")), []).append(each)
    table: dict[ListenAddress, Backend] = {}
    for service in sorted(services, key=lambda one: one.key):
        for at, backend in _of_service(service, by_service.get(service.key, ()), node, addresses):
            table.setdefault(at, backend)
    for address, pod in sorted(pods.items(), key=lambda one: one[1].key):
        for at, backend in _of_pod(pod, address, addresses):
            table.setdefault(at, backend)
    return table


def reachable(slices: Iterable[Object], *, elsewhere: Container[str]) -> list[Object]:
    """Slices without loopback addresses of the nodes ``elsewhere``: here they are another pod's."""
    return [_reachable(each, elsewhere) for each in slices]


def _reachable(slice: Object, elsewhere: Container[str]) -> Object:
    endpoints = slice.get("endpoints") or ()
    left = [
        each
        for each in endpoints
        if each.get("nodeName") not in elsewhere
        or not any(str(address).startswith(_LOOPBACK) for address in each.get("addresses") or ())
    ]
    return slice if len(left) == len(endpoints) else Object.of({**slice.tree, "endpoints": left})


def service_places(service: Object) -> list[ListenAddress]:
    """A service's cluster IP with each of its TCP ports."""
    if not _has_address(service):
        return []
    return [ListenAddress(service.spec["clusterIP"], int(port["port"])) for port in _tcp_ports(service)]


def unserved(services: Iterable[Object]) -> list[tuple[Object, str]]:
    """Services with ports that are not forwarded here, each with a message about one."""
    found = []
    for service in filter(_has_address, services):
        for port in service.spec.get("ports") or ():
            if port.get("protocol", "TCP") != "TCP":
                which = f"port {port.get('port')}/{port.get('protocol')}"
                message = f"service {service.namespace}/{service.name}: {which} is not forwarded: only TCP is"
                found.append((service, message))
    return found


def misplaced(
    services: Iterable[Object], *, ranges: Collection[IPv4Network], taken: Collection[IPv4Network]
) -> list[tuple[Object, str]]:
    """Services whose cluster IP must not be listened at, each with a message. ``ranges`` are those of
    services, any if there are none; ``taken`` belongs to the node and its pods."""
    found = []
    for service in filter(_has_address, services):
        if why := _why_misplaced(service.spec["clusterIP"], ranges, taken):
            found.append((service, f"service {service.namespace}/{service.name} is not forwarded: {why}"))
    return found


def _why_misplaced(text: str, ranges: Collection[IPv4Network], taken: Collection[IPv4Network]) -> str:
    try:
        # Stricter than the system, which would accept ::ffff:127.0.0.1 too.
        address = IPv4Address(text)
    except AddressValueError:
        return f"its address, {text[:80]!r}, is none of IPv4"
    if ranges and not any(address in each for each in ranges):
        return f"its address, {text}, is not in the range of services, {', '.join(map(str, ranges))}"
    if address.is_unspecified or address.is_multicast or address.is_reserved or address.is_link_local:
        return f"its address, {text}, is none that a service can have"
    if any(address in each for each in taken):
        return f"its address, {text}, belongs to the node"
    return ""


def _has_address(service: Object) -> bool:
    address = service.spec.get("clusterIP", "")
    return service.spec.get("type") != "ExternalName" and address not in ("", HEADLESS)


def _tcp_ports(service: Object) -> Iterator[Mapping[str, Any]]:
    return (port for port in service.spec.get("ports") or () if port.get("protocol", "TCP") == "TCP")


def _of_service(
    service: Object, slices: Sequence[Object], node: str, addresses: Sequence[str]
) -> Iterator[tuple[ListenAddress, Backend]]:
    if not _has_address(service):
        return
    spec = service.spec
    affinity = 0
    if spec.get("sessionAffinity") == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        affinity = int(config.get("timeoutSeconds") or _THREE_HOURS)
    ports = _ports(slices)
    for port in _tcp_ports(service):
        name = f"{service.namespace}/{service.name}:{port.get('name') or port.get('port')}"
        for policy, number, listening in (
            ("internalTrafficPolicy", port["port"], (spec["clusterIP"],)),
            ("externalTrafficPolicy", port.get("nodePort"), addresses),
        ):
            only = node if spec.get(policy) == "Local" else ""
            if number and (endpoints := _chosen(slices, ports, port.get("name") or "", only)):
                owner = PortOwner("Service", *service.key)
                backend = Backend(owner, name, endpoints, affinity, service.created)
                for address in listening:
                    yield ListenAddress(address, int(number)), backend


def _ports(slices: Sequence[Object]) -> list[dict[str, int]]:
    """The port numbers of each slice, by name."""
    return [
        {
            one.get("name") or "": one["port"]
            for one in each.get("ports") or ()
            if one.get("protocol", "TCP") == "TCP" and one.get("port") is not None
        }
        for each in slices
    ]


def _chosen(
    slices: Sequence[Object], ports: Sequence[Mapping[str, int]], port: str, only: str
) -> tuple[ServiceEndpoint, ...]:
    """The endpoints for new connections to a port, sorted. ``only``: of this node; empty for all."""
    ready: set[ServiceEndpoint] = set()
    leaving: set[ServiceEndpoint] = set()
    for index, each in enumerate(slices):
        number = ports[index].get(port)
        if number is None:
            continue
        for endpoint in each.get("endpoints") or ():
            if only and endpoint.get("nodeName") != only:
                continue
            conditions: Mapping[str, Any] = endpoint.get("conditions") or {}
            first = (endpoint.get("addresses") or ())[:1]
            places = {ServiceEndpoint(address, int(number)) for address in first}
            if conditions.get("ready") is not False:
                ready |= places
            elif conditions.get("serving") and conditions.get("terminating"):
                leaving |= places
    return tuple(sorted(ready or leaving))


def _of_pod(pod: Object, address: str, addresses: Sequence[str]) -> Iterator[tuple[ListenAddress, Backend]]:
    if pod.spec.get("hostNetwork"):
        return
    for kind in ("initContainers", "containers"):
        for container in pod.spec.get(kind) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort") or port.get("protocol", "TCP") != "TCP":
                    continue
                asked = port.get("hostIP") or ""
                owner, name = PortOwner("Pod", *pod.key), f"pod {pod.namespace}/{pod.name}"
                target = ServiceEndpoint(address, int(port["containerPort"]))
                for at in addresses if asked in _ANY else (asked,):
                    backend = Backend(owner, name, (target,), created=pod.created)
                    yield ListenAddress(at, int(port["hostPort"])), backend
