"""Pod termination: the order in which containers stop, and how much of the grace period each has left.

    stop_order(containers)           # {"db": (), "proxy": ("db",)}: a sidecar stops after the main containers
    grace_of(pod)                    # the grace period of its deletion, or of its spec
    remaining_grace(30, since, now)  # never less than two seconds

The preStop hook and the wait for other containers count against the grace period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.node.lifecycle.container_roles import ContainerRole, PodContainer

LEAST: Final = 2.0
"""Seconds between the signal and the kill."""
DEFAULT: Final = 30.0


def stop_order(parts: Sequence[PodContainer]) -> dict[str, tuple[str, ...]]:
    """For each container those that must end before its stop signal: sidecars stop last, in reverse order."""
    mains = tuple(container.name for container in parts if container.role is not ContainerRole.SIDECAR)
    found: dict[str, tuple[str, ...]] = dict.fromkeys(mains, ())
    before = mains
    for container in reversed([container for container in parts if container.role is ContainerRole.SIDECAR]):
        found[container.name] = before
        before = (*before, container.name)
    return found


def grace_of(pod: Object) -> float:
    """The grace period in seconds: of the pod's deletion, else of its spec."""
    return _seconds(pod.meta.get("deletionGracePeriodSeconds"), pod)


def probe_grace(probe: Mapping[str, Any] | None, pod: Object) -> float:
    """The grace period of a container that failed its probe."""
    return _seconds((probe or {}).get("terminationGracePeriodSeconds"), pod)


def _seconds(allowed: Any, pod: Object) -> float:
    """The grace period that is allowed, else that of the spec."""
    if allowed is None:
        allowed = pod.spec.get("terminationGracePeriodSeconds")
    return DEFAULT if allowed is None else float(allowed)


def remaining_grace(grace: float, since: float, now: float) -> float:
    """Seconds from the stop signal to the kill, for a grace period that began at ``since``."""
    return max(LEAST, hook_time(grace, since, now))


def hook_time(grace: float, since: float, now: float) -> float:
    """Seconds that a preStop hook may take; 0 if the grace period is over."""
    return max(0.0, grace - max(0.0, now - since))
