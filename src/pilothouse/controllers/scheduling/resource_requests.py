"""The resources and host ports that a pod requests.

    requested(pod)            # {"cpu": 500_000_000, "pods": 1_000_000_000}
    host_ports(pod)           # {("0.0.0.0", "TCP", 8080)}

Init containers run one after the other, sidecars (init containers that restart) from their turn on to the
end; a pod needs the maximum that runs at once, plus its overhead. Amounts are integers in nano-units: those
of all pods are added up for each scheduled pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.base.quantity import NANO, parse_quantity

Amounts = dict[str, int]

PODS: Final = "pods"
ANYWHERE: Final = "0.0.0.0"
Port = tuple[str, str, int]
"""Address, protocol and number."""


def amounts(given: Mapping[str, Any] | None) -> Amounts:
    """Nano-units by resource. Raises QuantityError."""
    return {name: _nanos(value) for name, value in given.items()} if given else {}


def added(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


@lru_cache(maxsize=4096)
def _nanos(value: str | int | float) -> int:
    """Cached: pods request the same few amounts."""
    return parse_quantity(value).nanos


def requested(pod: Object) -> Amounts:
    """What a node needs to have free for the pod."""
    spec = pod.spec
    together: Amounts = {}
    for container in spec.get("containers") or ():
        for name, amount in _requests(container).items():
            together[name] = together.get(name, 0) + amount
    if not spec.get("initContainers"):
        return _whole(pod, together)
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        its = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, its)
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, added(sidecars, its))
    return _whole(pod, _most(added(together, sidecars), starting))


def _whole(pod: Object, needed: Amounts) -> Amounts:
    spec = pod.spec
    # Pod-level requests override the sum of the containers.
    needed |= _requests(spec)
    if overhead := spec.get("overhead"):
        needed = added(needed, amounts(overhead))
    return {**needed, PODS: NANO}


def allocatable(node: Object) -> Amounts:
    return amounts(node.status.get("allocatable") or node.status.get("capacity"))


def host_ports(pod: Object) -> set[Port]:
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
    """True if two sets of ports conflict; 0.0.0.0 conflicts with every address."""
    others = list(theirs)
    return any(
        number == other and protocol == theirs_protocol and (address == at or ANYWHERE in (address, at))
        for address, protocol, number in mine
        for at, theirs_protocol, other in others
    )


def _requests(part: Mapping[str, Any]) -> Amounts:
    return amounts((part.get("resources") or {}).get("requests"))


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
