"""Host ports: which ports of the node a pod wants, and which are taken.

    wanted = ports_of(pod)                              # (HostPort(8080, "TCP", ""),)
    conflict(wanted, {"shop/web-0": (HostPort(8080),)})     # "port 8080/TCP of the node belongs to pod shop/web-0"

A pod with ``hostNetwork`` wants every port that it names; any other one those with a ``hostPort``. The scheduler looks at the
same ports when it chooses a node; the node looks again, since pods also come to it by ``nodeName``.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Mapping

from pilothouse.api.objects import Object
from pilothouse.node.addresses.address_records import HostPort

_ANY = ("", "0.0.0.0", "::")


def ports_of(pod: Object) -> tuple[HostPort, ...]:
    """The ports of the node that a pod is to have."""
    host_network = bool(pod.spec.get("hostNetwork"))
    found: dict[HostPort, None] = {}
    for kind in ("initContainers", "containers"):
        for container in pod.spec.get(kind) or ():
            for each in container.get("ports") or ():
                number = each.get("hostPort") or (each.get("containerPort") if host_network else 0)
                if number:
                    address = each.get("hostIP") or ""
                    protocol = each.get("protocol") or "TCP"
                    found[HostPort(int(number), protocol, "" if address in _ANY else address)] = None
    return tuple(found)


def conflict(wanted: Iterable[HostPort], held: Mapping[str, Iterable[HostPort]]) -> str:
    """Which pod stands in the way, as a sentence; empty if none does."""
    for port in wanted:
        for pod, ports in held.items():
            if any(_same(port, other) for other in ports):
                return f"port {port.number}/{port.protocol} of the node is in use by pod {pod}"
    return ""


def occupied(port: HostPort, address: str) -> str:
    """Why a port of the machine can't be had at an address, as a sentence; empty if it can."""
    kind = socket.SOCK_DGRAM if port.protocol == "UDP" else socket.SOCK_STREAM
    at = port.address or address
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1 if kind == socket.SOCK_STREAM else 0)
        try:
            probe.bind((at, port.number))
        except OSError as problem:
            if problem.errno == errno.EADDRNOTAVAIL and not port.address:
                return ""  # The node is reached at an address that is not its own, behind a router say.
            if problem.errno == errno.EADDRINUSE:
                return f"port {port.number}/{port.protocol} of the node is in use by another program at {at}"
            return (
                f"port {port.number}/{port.protocol} of the node is not available at {at}: {problem.strerror}"
            )
    return ""


def _same(one: HostPort, other: HostPort) -> bool:
    if (one.number, one.protocol) != (other.number, other.protocol):
        return False
    return not one.address or not other.address or one.address == other.address
