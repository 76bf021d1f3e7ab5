"""Services, and the addresses behind them.

Addresses are allocated elsewhere; an unset ``clusterIP`` stays unset here. A headless service has the address
``None``, an update keeps what was allocated, and a change of type releases what only the former type has.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.kubernetes.printer_cells import AGE, NAME, NONE, UNSET, column, labels_text
from pilothouse.api.kubernetes.shared_checks import (
    Problems,
    address,
    dns_label,
    follows,
    named,
    port,
    port_or_name,
    unchanged,
)
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object
from pilothouse.meta.names import qualified_name, subdomain, validate_labels

HEADLESS: Final = "None"
_SHOWN_ADDRESSES: Final = 3


def default_service(service: Object) -> None:
    spec = service["spec"]
    if spec.get("sessionAffinity") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec.get("sessionAffinity") == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    for each in spec.get("ports") or ():
        if each.get("targetPort") in (None, 0, ""):
            each["targetPort"] = each.get("port", 0)
    kind = spec.get("type")
    if _reached_from_outside(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def prepare_create(service: Object) -> None:
    service["status"] = {"loadBalancer": {}}
    if is_headless(service["spec"]) and has_address(service["spec"]):
        service["spec"].setdefault("ipFamilyPolicy", "SingleStack")
        service["spec"].setdefault("ipFamilies", ["IPv4"])


def prepare_update(new: Object, old: Object) -> None:
    """Keep allocated values that the update leaves out; drop unchanged ones that the new type doesn't have.

    Clients send a service as it was first written, or change only its type.
    """
    mine, theirs = new["spec"], old["spec"]
    _follow_address(mine, theirs)
    if has_address(mine) and has_address(theirs):
        _keep_address(mine, theirs)
    if has_node_ports(mine) and has_node_ports(theirs):
        _keep_node_ports(mine, theirs)
    for had, fields in _TYPE_DEPENDENT:
        if had(theirs) and not had(mine):
            for field in fields:
                if mine.get(field) == theirs.get(field):
                    mine.pop(field, None)
    if has_node_ports(theirs) and not has_node_ports(mine) and node_ports(mine) == node_ports(theirs):
        for each in mine.get("ports") or ():
            each.pop("nodePort", None)


def has_address(spec: Mapping[str, Any]) -> bool:
    """True if the service has a cluster address, which may be ``None``."""
    return spec.get("type") != "ExternalName"


def has_node_ports(spec: Mapping[str, Any]) -> bool:
    """True if the service's ports are also open on the nodes."""
    kind = spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def node_ports(spec: Mapping[str, Any]) -> frozenset[int]:
    """The node ports that a service has or asks for."""
    return frozenset(each["nodePort"] for each in spec.get("ports") or () if each.get("nodePort"))


def _reached_from_outside(spec: Mapping[str, Any]) -> bool:
    kind = spec.get("type")
    return kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _is_load_balancer(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") == "LoadBalancer"


_TYPE_DEPENDENT: Final = (
    (has_address, ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")),
    (_reached_from_outside, ("externalTrafficPolicy",)),
    (_is_load_balancer, ("allocateLoadBalancerNodePorts", "loadBalancerClass")),
)


def _follow_address(mine: Object, theirs: Object) -> None:
    """An old client changes ``clusterIP`` and doesn't know ``clusterIPs``."""
    asked = mine.get("clusterIP")
    if asked != theirs.get("clusterIP") and mine.get("clusterIPs") == theirs.get("clusterIPs"):
        mine.pop("clusterIPs", None)
        if asked:
            mine["clusterIPs"] = [asked]


def _keep_address(mine: Object, theirs: Object) -> None:
    if not mine.get("clusterIP") and mine.get("clusterIPs"):
        return
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if not mine.get(field) and theirs.get(field):
            mine[field] = theirs[field]


def _keep_node_ports(mine: Object, theirs: Object) -> None:
    """A port is identified by its name; a port that another one uses now is not kept."""
    given = {each.get("name", ""): each.get("nodePort") for each in theirs.get("ports") or ()}
    used = node_ports(mine)
    for each in mine.get("ports") or ():
        kept = given.get(each.get("name", ""))
        if not each.get("nodePort") and kept and kept not in used:
            each["nodePort"] = kept


def is_headless(spec: Mapping[str, Any]) -> bool:
    """True if the service's name resolves to its pods."""
    return spec.get("clusterIP") == HEADLESS


def _port_key(each: Mapping[str, Any]) -> tuple[Any, Any]:
    return each.get("port"), each.get("protocol")


def validate_service(new: Object, old: Object | None) -> Problems:
    spec = new["spec"]
    kind, ports = spec.get("type"), spec.get("ports") or ()
    if not ports and not is_headless(spec) and kind != "ExternalName":
        yield FieldError.required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield FieldError.invalid(
            "spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services"
        )
    if kind == "ExternalName":
        yield from _check_external_name(spec)
    yield from _check_ports(spec)
    yield from validate_labels(spec.get("selector") or {}, "spec.selector")
    yield from _check_affinity(spec)
    for index, each in enumerate(spec.get("clusterIPs") or ()):
        if each != HEADLESS:
            yield from address(element("spec.clusterIPs", index), each)
    if spec.get("clusterIPs") and spec.get("clusterIP", "") != spec["clusterIPs"][0]:
        yield FieldError.invalid("spec.clusterIPs", spec["clusterIPs"], "first value must match `clusterIP`")
    for index, each in enumerate(spec.get("externalIPs") or ()):
        yield from address(element("spec.externalIPs", index), each)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        yield FieldError.forbidden(
            "spec.allocateLoadBalancerNodePorts", "may only be used when `type` is 'LoadBalancer'"
        )
    if spec.get("externalTrafficPolicy") and not _reached_from_outside(spec):
        yield FieldError.invalid(
            "spec.externalTrafficPolicy",
            spec["externalTrafficPolicy"],
            "may only be set for externally-accessible services",
        )
    if (
        old is not None
        and "ExternalName" not in (kind, old["spec"].get("type"))
        and old["spec"].get("clusterIPs")
    ):
        mine = spec.get("clusterIPs") or []
        if mine[:1] != old["spec"]["clusterIPs"][:1]:
            yield FieldError.invalid("spec.clusterIPs[0]", mine, "may not change once set")


def _check_external_name(spec: Mapping[str, Any]) -> Problems:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield FieldError.forbidden(f"spec.{field}", "may not be set for ExternalName services")
    yield from named("spec.externalName", (spec.get("externalName") or "").removesuffix("."), subdomain)


def _check_ports(spec: Mapping[str, Any]) -> Problems:
    ports = spec.get("ports") or ()
    names: set[str] = set()
    taken: set[tuple[Any, Any]] = set()
    node_ports: set[tuple[Any, Any]] = set()
    for index, each in enumerate(ports):
        at = element("spec.ports", index)
        name = each.get("name", "")
        if name or len(ports) > 1:
            yield from dns_label(f"{at}.name", name)
        if name and name in names:
            yield FieldError.duplicate(f"{at}.name", name)
        names.add(name)
        yield from port(f"{at}.port", each.get("port", 0))
        if "targetPort" in each:
            yield from port_or_name(f"{at}.targetPort", each["targetPort"])
        if each.get("appProtocol"):
            yield from follows(f"{at}.appProtocol", each["appProtocol"], qualified_name)
        if _port_key(each) in taken:
            yield FieldError.duplicate(at, {"port": each.get("port"), "protocol": each.get("protocol")})
        taken.add(_port_key(each))
        if each.get("nodePort"):
            key = (each.get("protocol"), each["nodePort"])
            if spec.get("type") == "ClusterIP":
                yield FieldError.forbidden(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
            elif key in node_ports:
                yield FieldError.duplicate(f"{at}.nodePort", each["nodePort"])
            node_ports.add(key)


def _check_affinity(spec: Mapping[str, Any]) -> Problems:
    if spec.get("sessionAffinity") != "ClientIP":
        return
    client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = client.get("timeoutSeconds", 0)
    if not 0 < seconds <= 86400:
        yield FieldError.invalid(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            seconds,
            "must be greater than 0 and less than 86400",
        )


def validate_endpoints(new: Object, old: Object | None) -> Problems:
    for index, subset in enumerate(new.get("subsets") or ()):
        at = element("subsets", index)
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield FieldError.required(at, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for number, each in enumerate(subset.get(field) or ()):
                yield from address(f"{element(f'{at}.{field}', number)}.ip", each.get("ip", ""))
        yield from _check_endpoint_ports(subset.get("ports") or (), f"{at}.ports")


def _check_endpoint_ports(ports: Any, path: str) -> Problems:
    for index, each in enumerate(ports):
        at = element(path, index)
        if each.get("name") or len(ports) > 1:
            yield from dns_label(f"{at}.name", each.get("name", ""))
        yield from port(f"{at}.port", each.get("port", 0))


def validate_slice(new: Object, old: Object | None) -> Problems:
    """An EndpointSlice."""
    kind = new.get("addressType", "")
    if old is not None:
        yield from unchanged("addressType", kind, old.get("addressType", ""))
    endpoints = new.get("endpoints") or ()
    if len(endpoints) > 1000:
        yield FieldError.too_many("endpoints", len(endpoints), 1000)
    for index, endpoint in enumerate(endpoints):
        at = f"{element('endpoints', index)}.addresses"
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            yield FieldError.required(at, "must contain at least 1 address")
        elif len(addresses) > 100:
            yield FieldError.too_many(at, len(addresses), 100)
        for number, each in enumerate(addresses):
            yield from _check_family(element(at, number), each, kind)
    names: set[str] = set()
    for index, each in enumerate(new.get("ports") or ()):
        name, at = each.get("name") or "", element("ports", index)
        if name:
            yield from dns_label(f"{at}.name", name)
        if name in names:
            yield FieldError.duplicate(f"{at}.name", name)
        names.add(name)
        if each.get("port") is not None:
            yield from port(f"{at}.port", each["port"])


def _check_family(path: str, value: str, kind: str) -> Problems:
    if kind == "FQDN":
        yield from named(path, value)
        return
    problems = list(address(path, value))
    yield from problems
    if not problems and f"IPv{ipaddress.ip_address(value).version}" != kind:
        yield FieldError.invalid(path, value, f"must be an {kind} address")


def _cluster_address(service: Object, now: float) -> str:
    return str(((service.get("spec") or {}).get("clusterIPs") or [NONE])[0])


def _external_address(service: Object, now: float) -> str:
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or "")
    given = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        given = [each.get("ip") or each.get("hostname") or "" for each in ingress] + given
        return ",".join(given) or "<pending>"
    return ",".join(given) or NONE


def _ports_text(service: Object, now: float) -> str:
    pieces = []
    for each in (service.get("spec") or {}).get("ports") or ():
        outside = f":{each['nodePort']}" if each.get("nodePort") else ""
        pieces.append(f"{each.get('port')}{outside}/{each.get('protocol', 'TCP')}")
    return ",".join(pieces) or NONE


def _endpoints_text(endpoints: Object, now: float) -> str:
    found: list[str] = []
    for subset in endpoints.get("subsets") or ():
        addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
        ports = [each.get("port") for each in subset.get("ports") or ()]
        joined = [f"[{ip}]" if ":" in ip else ip for ip in addresses]
        found += [f"{ip}:{number}" for number in ports for ip in joined] if ports else addresses
    return _first_few(found) if endpoints.get("subsets") else NONE


def _slice_ports(endpoint_slice: Object, now: float) -> str:
    ports = [str(each["port"]) if each.get("port") else "*" for each in endpoint_slice.get("ports") or ()]
    return _first_few(ports) if ports else UNSET


def _slice_addresses(endpoint_slice: Object, now: float) -> str:
    found = [ip for each in endpoint_slice.get("endpoints") or () for ip in each.get("addresses") or ()]
    return _first_few(found) if found else UNSET


def _first_few(texts: list[str]) -> str:
    shown = ",".join(texts[:_SHOWN_ADDRESSES])
    more = len(texts) - _SHOWN_ADDRESSES
    return f"{shown} + {more} more..." if more > 0 else shown


SERVICE_COLUMNS: Final = (
    NAME,
    column("Type", "How the service is reached.", lambda obj, now: (obj.get("spec") or {}).get("type", "")),
    column("Cluster-IP", "Its address inside the cluster.", _cluster_address),
    column("External-IP", "Its address outside.", _external_address),
    column("Port(s)", "Its ports.", _ports_text),
    AGE,
    column(
        "Selector",
        "The labels of its pods.",
        lambda obj, now: labels_text((obj.get("spec") or {}).get("selector")),
        wide=True,
    ),
)
ENDPOINTS_COLUMNS: Final = (NAME, column("Endpoints", "The addresses that are ready.", _endpoints_text), AGE)
SLICE_COLUMNS: Final = (
    NAME,
    column("AddressType", "The kind of address.", lambda obj, now: obj.get("addressType", "")),
    column("Ports", "The ports of each address.", _slice_ports),
    column("Endpoints", "The addresses.", _slice_addresses),
    AGE,
)
