"""What a container may use, as its manifest says it.

    limits_of(container, pids=8192)          # Limits(cpu=2.0, memory=1073741824, ...)
    group_name(pod.uid, "db")                # where it is counted

A limit that this machine does not enforce is told in the pod's condition ``pilothouse.io/LimitsEnforced``; the pod runs all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pilothouse.api.objects import Tree
from pilothouse.base.quantity import parse_quantity
from pilothouse.supervise.cgroup_settings import Limits, Throttle
from pilothouse.supervise.cgroups import PODS

_PROMISED = ("cpu is", "memory is", "I/O of")
"""How complaints about limits begin that a manifest, or the class of a volume, asks for; requests are the scheduler's business."""


def pod_group(pod_uid: str) -> str:
    """The group that holds those of a pod's containers."""
    return f"{PODS}/{pod_uid}"


def group_name(pod_uid: str, container: str) -> str:
    return f"{pod_group(pod_uid)}/{container}"


def limits_of(container: Tree, *, pids: int | None, throttles: tuple[Throttle, ...] = ()) -> Limits:
    """Its limits and requests; who limits something and asks for nothing asks for as much."""
    resources: Mapping[str, Any] = container.get("resources") or {}
    limits: Mapping[str, Any] = resources.get("limits") or {}
    requests: Mapping[str, Any] = {**limits, **(resources.get("requests") or {})}
    return Limits(
        cpu_request=_number(requests.get("cpu")),
        cpu=_number(limits.get("cpu")),
        memory_request=_whole(requests.get("memory")),
        memory=_whole(limits.get("memory")),
        pids=pids,
        throttles=throttles,
    )


def weight_of(containers: Iterable[Tree], pids: int | None = None) -> Limits:
    """What a pod weighs against other pods: the processors that its containers ask for together. They are limited one by one, but for
    processes: of those all of them together have so many.
    """
    asked = (limits_of(each, pids=None).cpu_request for each in containers)
    return Limits(cpu_request=sum(each or 0.0 for each in asked), pids=pids)


def broken_promises(complaints: Iterable[str]) -> list[str]:
    """Those complaints that are about a limit of the manifest."""
    return [each for each in complaints if each.startswith(_PROMISED)]


def denied(limits: Limits, why: str) -> list[str]:
    """The same for a container that has no group at all."""
    asked = [("cpu", limits.cpu), ("memory", limits.memory)]
    return [f"{name} is not enforced: {why}" for name, value in asked if value is not None]


def _number(amount: Any) -> float | None:
    return None if amount is None else parse_quantity(amount).to_float()


def _whole(amount: Any) -> int | None:
    return None if amount is None else parse_quantity(amount).to_int()
