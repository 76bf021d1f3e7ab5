"""What a pod takes from a node.

    requested(pod)            # {"cpu": Quantity, "memory": Quantity, "pods": Quantity}
    host_ports(pod)           # {("0.0.0.0", "TCP", 8080)}

Containers run together, init containers one after the other before them, and sidecars (init containers that restart) from
their turn on to the end; a pod needs the most that it ever has at once, and its overhead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.base.quantity import Quantity, parse_quantity

Amounts = dict[str, Quantity]

PODS: Final = "pods"
ANYWHERE: Final = "0.0.0.0"
_NONE: Final = Quantity(0)
_ONE: Final = parse_quantity("1")
Port = tuple[str, str, int]
"""Address, protocol and number."""


def amounts(given: Mapping[str, Any] | None) -> Amounts:
    """Quantities by resource. Raises QuantityError."""
    return {name: parse_quantity(value) for name, value in (given or {}).items()}


def added(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    return {name: one.get(name, _NONE) + other.get(name, _NONE) for name in {**one, **other}}


def requested(pod: Object) -> Amounts:
    """What has to be free for it."""
    spec = pod.spec
    together: Amounts = {}
    for container in spec.get("containers") or ():
        together = added(together, _requests(container))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        its = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, its)
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, added(sidecars, its))
    needed = _most(added(together, sidecars), starting)
    # What the pod asks for as a whole comes before what its containers add up to.
    needed |= _requests(spec)
    return {**added(needed, amounts(spec.get("overhead"))), PODS: _ONE}


def allocatable(node: Object) -> Amounts:
    """What a node has for pods."""
    return amounts(node.status.get("allocatable") or node.status.get("capacity"))


def host_ports(pod: Object) -> set[Port]:
    """The ports of the node that a pod takes for itself."""
    spec = pod.spec
    containers = [
        *(spec.get("containers") or ()),
        *(one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"),
    ]
    return {
        (port.get("hostIP") or ANYWHERE, port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def collide(mine: Iterable[Port], theirs: Iterable[Port]) -> bool:
    """True if a port is asked for twice; one on every address is one on each."""
    others = list(theirs)
    return any(
        number == other and protocol == theirs_protocol and (address == at or ANYWHERE in (address, at))
        for address, protocol, number in mine
        for at, theirs_protocol, other in others
    )


def _requests(part: Mapping[str, Any]) -> Amounts:
    return amounts((part.get("resources") or {}).get("requests"))


def _most(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    return {name: max(one.get(name, _NONE), other.get(name, _NONE)) for name in {**one, **other}}
