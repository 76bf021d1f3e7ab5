"""Kubernetes' CEL functions that rules on objects use.

Lists: ``isSorted sum min max indexOf lastIndexOf sets.contains sets.equivalent sets.intersects``. Text:
``find findAll``. Quantities, URLs, IP addresses and CIDR ranges: ``quantity url ip cidr``, ``isQuantity isURL
isIP isCIDR`` and their methods; such values are carried as canonical text, so that equal ones compare equal.
A function fails with ``ValueError``; the rule then fails with its text.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from pilothouse.base.quantity import DECIMAL, NANO, Quantity, parse_quantity
from pilothouse.meta.schema.regular_expressions import compile_expression


class Signature(NamedTuple):
    """A function's CEL signature; of a method, the first parameter is the receiver."""

    name: str
    parameters: tuple[str, ...]
    result: str
    implementation: Callable[..., Any]
    member: bool = True


def _is_sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(items))


def _extreme(choose: Callable[[list[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def extreme(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on an empty list")
        return choose(items)

    return extreme


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if _equal(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index in reversed(range(len(items))) if _equal(items[index], wanted)), -1)


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(_index_of(items, each) >= 0 for each in wanted)


def _intersects(items: list[Any], others: list[Any]) -> bool:
    return any(_index_of(items, each) >= 0 for each in others)


def _find(text: str, pattern: str) -> str:
    return compile_expression(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return compile_expression(pattern).find_all(text, limit)


def _quantity(text: str) -> str:
    return _plain(parse_quantity(text))


def _plain(amount: Quantity) -> str:
    """The canonical text of an amount, whatever its suffix."""
    return str(Quantity(amount.nanos, DECIMAL))


def _whole(text: str) -> int:
    units, rest = divmod(parse_quantity(text).nanos, NANO)
    if rest or not -(2**63) <= units < 2**63:
        raise ValueError(f"{text!r} can't be converted to an integer")
    return units


def _compare(left: str, right: str) -> int:
    one, other = parse_quantity(left), parse_quantity(right)
    return (one > other) - (one < other)


def _add(text: str, other: Any) -> str:
    return _plain(parse_quantity(text) + parse_quantity(other))


def _sub(text: str, other: Any) -> str:
    return _plain(parse_quantity(text) - parse_quantity(other))


def _is(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _url(text: str) -> str:
    parts = urlsplit(text)
    _ = parts.port
    if not text or " " in text or not (parts.scheme or text.startswith("/")):
        raise ValueError(f"{text!r} is not an absolute URL or path")
    return text


def _host(text: str) -> str:
    return urlsplit(text).netloc.rpartition("@")[2]


def _hostname(text: str) -> str:
    host = _host(text)
    return host[1 : host.index("]")] if host.startswith("[") else host.partition(":")[0]


def _port(text: str) -> str:
    return str(urlsplit(text).port or "")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if "%" in text:
        raise ValueError(f"{text!r} has a zone, which an address in a rule can't have")
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f"{text!r} is an IPv4 address in IPv6 form; write it as {address.ipv4_mapped}")
    return address


def _interface(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    if "/" not in text or "%" in text:
        raise ValueError(f"{text!r} is not a CIDR range such as 10.0.0.0/8")
    return ipaddress.ip_interface(text)


def _global(text: str) -> bool:
    address = _address(text)
    broadcast = address == ipaddress.IPv4Address("255.255.255.255")
    return not (
        broadcast
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _link_local_multicast(text: str) -> bool:
    address = _address(text)
    return address in ipaddress.ip_network("224.0.0.0/24" if address.version == 4 else "ff02::/16")


def _contains_address(network: str, address: str) -> bool:
    return _address(address) in _interface(network).network


def _contains_network(network: str, other: str) -> bool:
    outer, inner = _interface(network).network, _interface(other).network
    if outer.version != inner.version:
        return False
    return inner.prefixlen >= outer.prefixlen and inner.network_address in outer


FUNCTIONS: Final = (
    Signature("isSorted", ("list",), "bool", _is_sorted),
    Signature("sum", ("list",), "dyn", lambda items: sum(items)),
    Signature("min", ("list",), "dyn", _extreme(min, "min")),
    Signature("max", ("list",), "dyn", _extreme(max, "max")),
    Signature("indexOf", ("list", "dyn"), "int", _index_of),
    Signature("lastIndexOf", ("list", "dyn"), "int", _last_index_of),
    Signature("sets.contains", ("list", "list"), "bool", _contains, member=False),
    Signature(
        "sets.equivalent",
        ("list", "list"),
        "bool",
        lambda one, other: _contains(one, other) and _contains(other, one),
        member=False,
    ),
    Signature("sets.intersects", ("list", "list"), "bool", _intersects, member=False),
    Signature("find", ("string", "string"), "string", _find),
    Signature("findAll", ("string", "string"), "list", _find_all),
    Signature("findAll", ("string", "string", "int"), "list", _find_all),
    Signature("quantity", ("string",), "string", _quantity, member=False),
    Signature("isQuantity", ("string",), "bool", _is(parse_quantity), member=False),
    Signature("isInteger", ("string",), "bool", _is(_whole)),
    Signature("asInteger", ("string",), "int", _whole),
    Signature("asApproximateFloat", ("string",), "double", lambda text: parse_quantity(text).to_float()),
    Signature("sign", ("string",), "int", lambda text: _compare(text, "0")),
    Signature("add", ("string", "dyn"), "string", _add),
    Signature("sub", ("string", "dyn"), "string", _sub),
    Signature("isGreaterThan", ("string", "string"), "bool", lambda one, other: _compare(one, other) > 0),
    Signature("isLessThan", ("string", "string"), "bool", lambda one, other: _compare(one, other) < 0),
    Signature("compareTo", ("string", "string"), "int", _compare),
    Signature("url", ("string",), "string", _url, member=False),
    Signature("isURL", ("string",), "bool", _is(_url), member=False),
    Signature("getScheme", ("string",), "string", lambda text: urlsplit(text).scheme),
    Signature("getHost", ("string",), "string", _host),
    Signature("getHostname", ("string",), "string", _hostname),
    Signature("getPort", ("string",), "string", _port),
    Signature("getEscapedPath", ("string",), "string", lambda text: urlsplit(text).path),
    Signature(
        "getQuery", ("string",), "map", lambda text: parse_qs(urlsplit(text).query, keep_blank_values=True)
    ),
    Signature("ip", ("string",), "string", lambda text: str(_address(text)), member=False),
    Signature("isIP", ("string",), "bool", _is(_address), member=False),
    Signature("ip.isCanonical", ("string",), "bool", lambda text: str(_address(text)) == text, member=False),
    Signature("family", ("string",), "int", lambda text: _address(text).version),
    Signature("isUnspecified", ("string",), "bool", lambda text: _address(text).is_unspecified),
    Signature("isLoopback", ("string",), "bool", lambda text: _address(text).is_loopback),
    Signature("isLinkLocalMulticast", ("string",), "bool", _link_local_multicast),
    Signature("isLinkLocalUnicast", ("string",), "bool", lambda text: _address(text).is_link_local),
    Signature("isGlobalUnicast", ("string",), "bool", _global),
    Signature("cidr", ("string",), "string", lambda text: str(_interface(text)), member=False),
    Signature("isCIDR", ("string",), "bool", _is(_interface), member=False),
    Signature("containsIP", ("string", "string"), "bool", _contains_address),
    Signature("containsCIDR", ("string", "string"), "bool", _contains_network),
    Signature("ip", ("string",), "string", lambda text: str(_interface(text).ip)),
    Signature("masked", ("string",), "string", lambda text: str(_interface(text).network)),
    Signature("prefixLength", ("string",), "int", lambda text: _interface(text).network.prefixlen),
)
