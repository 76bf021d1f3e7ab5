"""Addresses that a server listens on, and names that clients may use for it."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

_ALWAYS = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_NOWHERE = ("192.0.2.1", 9)
"""An address reserved for documentation."""


def split_listen(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[::1]:PORT`` or ``:PORT``. Raises ``ValueError`` with a message."""
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} has no port; write HOST:PORT, such as 127.0.0.1:6443")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{port!r} is not a port; one from 1 to 65535, or 0 for a free one")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"an IPv6 address goes in brackets: [{host}]:{port}")
    return host or "0.0.0.0", int(port)


def is_everywhere(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def url(host: str, port: int) -> str:
    """How a client on this machine reaches a server that listens there."""
    return f"https://{_local(host, port)}"


def plain_url(host: str, port: int) -> str:
    """The same without TLS."""
    return f"http://{_local(host, port)}"


def _local(host: str, port: int) -> str:
    if is_everywhere(host):
        host = "::1" if ":" in host else "127.0.0.1"
    return bracketed(host, port)


def bracketed(host: str, port: int) -> str:
    """``HOST:PORT``, as ``split_listen`` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def advertised(host: str, port: int) -> str:
    """How a client on another machine reaches it, as far as this one can tell."""
    return url((outward_address() if is_everywhere(host) else "") or host, port)


def place(url: str) -> tuple[str, int]:
    """Host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 443


def names(host: str, *others: str) -> frozenset[str]:
    """Every name and address for the serving certificate, with ``others``."""
    found = {*_ALWAYS, *_host_names(), *others}
    if is_everywhere(host):
        found.update(filter(None, [outward_address()]))
    else:
        found.add(host)
    return frozenset(_normal(name) for name in found)


def _normal(name: str) -> str:
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()


def _host_names() -> list[str]:
    name = socket.gethostname()
    usable = name.isascii() and all(part and len(part) < 64 for part in name.split("."))
    return [name] if usable else []


def address_towards(url: str) -> str:
    """The address for calls to a server; for one on this machine, ``outward_address``."""
    address = outward_address(place(url))
    return address if address and not ip_address(address).is_loopback else outward_address()


def outward_address(target: tuple[str, int] = _NOWHERE) -> str:
    """The address of this machine towards the default route; empty if none. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(target)
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
        return address
