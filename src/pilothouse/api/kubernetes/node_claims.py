"""What a Node claims of the network: ranges for its pods, addresses and names; and which claims are refused.

    parse_pod_range("10.44.1.0/24")             # IPv4Network("10.44.1.0/24")
    parse_pod_range("203.0.113.0/24")           # PodRangeError: not a private range
    why_no_node_address("0.0.0.0")              # why not
    claims = claims_of(node)
    claims.ranges, claims.addresses, claims.names

Other machines route a range to the node that claims it, so a range that could hold other addresses (public,
loopback, link-local, very large ones) is refused: by the API server on write, and by each node before it sets
a route.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

import msgspec

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

PRIVATE: Final = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fd00::/8"))
)
"""RFC 1918, the shared space of RFC 6598, and unique local IPv6 addresses."""
LOOPBACK_PODS: Final = IPv4Network("127.64.0.0/11")
"""Addresses of pods on nodes without a range, up to the API server's range for services."""
NETWORK_PAGE: Final = "/pilothouse/v1/network"
"""Where our server publishes the ranges of all pods and services (``NetworkPage``)."""
_LENGTHS: Final = {4: range(16, 31), 6: range(48, 125)}
_ADDRESS_TYPES: Final = frozenset({"InternalIP", "ExternalIP"})
_NAME_TYPES: Final = frozenset({"Hostname", "InternalDNS", "ExternalDNS"})


class PodRangeError(ValueError):
    """A range that no node can have for its pods."""


class NetworkPage(msgspec.Struct, frozen=True, rename="camel"):
    """What the control plane says of the network, as JSON at ``NETWORK_PAGE``."""

    cluster_cidrs: tuple[str, ...]
    service_cidrs: tuple[str, ...] = ()
    """The range of service addresses; empty if unknown."""


class NetworkClaims(msgspec.Struct, frozen=True):
    """What a Node says is its own. What can't be read is left out."""

    ranges: tuple[Network, ...] = ()
    addresses: tuple[Address, ...] = ()
    names: tuple[str, ...] = ()
    provider_id: str = ""


def claims_of(node: Mapping[str, Any]) -> NetworkClaims:
    """The claims of a Node."""
    return NetworkClaims(
        tuple(each for text in range_texts(node) if (each := _read(ip_network, text)) is not None),
        tuple(each for text in address_texts(node) if (each := _read(ip_address, text)) is not None),
        tuple(dict.fromkeys((str((node.get("metadata") or {}).get("name") or ""), *name_texts(node)))),
        str((node.get("spec") or {}).get("providerID") or ""),
    )


def range_texts(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The pod ranges as written, whichever field has them."""
    spec = node.get("spec") or {}
    return tuple(dict.fromkeys(map(str, filter(None, [spec.get("podCIDR"), *(spec.get("podCIDRs") or ())]))))


def address_texts(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The IP addresses as written."""
    return tuple(_of_types(node, _ADDRESS_TYPES))


def name_texts(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The host names among the addresses."""
    return tuple(_of_types(node, _NAME_TYPES))


def pod_address_texts(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The addresses of a pod by its status: services route to them."""
    status = pod.get("status") or {}
    several = [each.get("ip") for each in status.get("podIPs") or ()]
    return tuple(dict.fromkeys(map(str, filter(None, [status.get("podIP"), *several]))))


def parse_pod_range(text: str) -> Network:
    """The range, if a node can have it for its pods. Raises ``PodRangeError``."""
    try:
        network = ip_network(text)
    except ValueError as problem:
        raise PodRangeError(
            f"{text!r} is not a range of addresses, such as 10.44.1.0/24: {problem}"
        ) from None
    lengths = _LENGTHS[network.version]
    if network.prefixlen not in lengths:
        raise PodRangeError(
            f"{text}: the range of a node's pods has a prefix of {lengths[0]} to {lengths[-1]} bits, "
            "such as 10.44.1.0/24"
        )
    if not any(contains(each, network) for each in PRIVATE):
        raise PodRangeError(
            f"{text} is not a private range, so it may belong to others: pods have addresses of "
            f"{', '.join(map(str, PRIVATE))}; take one such as 10.44.1.0/24"
        )
    return network


def why_no_node_address(text: str) -> str:
    """Why no node can have an address, or empty. Loopback is for nodes on the API server's machine."""
    try:
        address = ip_address(text)
    except ValueError:
        return f"{text!r} is not an IP address"
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        return f"{text} is an IPv4 address in another form; write {mapped}"
    if getattr(address, "scope_id", None):
        return f"{text} has a scope, which is only valid on one machine"
    if address.is_loopback:
        return ""
    if address.is_unspecified or address.is_multicast or address.is_link_local or address.is_reserved:
        return f"{text} is not the address of a single machine"
    return ""


def contains(outer: Network, inner: Network) -> bool:
    """Whether one range lies within another."""
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def overlapping(one: Network, other: Network) -> bool:
    """Whether two ranges share addresses."""
    return one.version == other.version and one.overlaps(other)


def _of_types(node: Mapping[str, Any], types: frozenset[str]) -> Iterator[str]:
    for each in (node.get("status") or {}).get("addresses") or ():
        if each.get("type") in types and each.get("address"):
            yield str(each["address"])


def _read(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        return None
