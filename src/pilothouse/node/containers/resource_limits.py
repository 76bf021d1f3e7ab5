"""The resource limits of a container, from its manifest.

    container_limits(container, pids=8192)   # Limits(cpu=2.0, memory=1073741824, ...)
    container_cgroup(pod.uid, "db")          # the name of its control group

A limit that this machine can't enforce is reported in the condition ``pilothouse.io/LimitsEnforced``; the pod
runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pilothouse.api.objects import Tree
from pilothouse.base.quantity import parse_quantity
from pilothouse.supervise.cgroup_settings import DeviceThrottle, Limits
from pilothouse.supervise.cgroups import PODS

_PROMISED = ("cpu is", "memory is", "I/O of")
"""The prefixes of messages about limits of a manifest or a volume's class. Requests are the scheduler's."""


def pod_cgroup(pod_uid: str) -> str:
    """The pod's control group, the parent of its containers'."""
    return f"{PODS}/{pod_uid}"


def container_cgroup(pod_uid: str, container: str) -> str:
    return f"{pod_cgroup(pod_uid)}/{container}"


def container_limits(
    container: Tree, *, pids: int | None, throttles: tuple[DeviceThrottle, ...] = ()
) -> Limits:
    """A container's limits and requests; a request defaults to the limit."""
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


def pod_limits(containers: Iterable[Tree], pids: int | None = None) -> Limits:
    """The settings of a pod's control group: the sum of CPU requests as its weight, and the number of
    processes that its containers share. Other limits are per container."""
    asked = (container_limits(each, pids=None).cpu_request for each in containers)
    return Limits(cpu_request=sum(each or 0.0 for each in asked), pids=pids)


def unenforced_limits(unenforced: Iterable[str]) -> list[str]:
    """The messages that are about a limit of the manifest."""
    return [each for each in unenforced if each.startswith(_PROMISED)]


def all_unenforced(limits: Limits, why: str) -> list[str]:
    """The messages for a container without a control group."""
    asked = [("cpu", limits.cpu), ("memory", limits.memory)]
    return [f"{name} is not enforced: {why}" for name, value in asked if value is not None]


def _number(amount: Any) -> float | None:
    return None if amount is None else parse_quantity(amount).to_float()


def _whole(amount: Any) -> int | None:
    return None if amount is None else parse_quantity(amount).to_int()
