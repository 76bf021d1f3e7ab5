"""How a pod ends: who stops after whom, and how much of its grace each container has left.

    stop_order(parts)                   # {"db": (), "proxy": ("db",)}: a sidecar stops after the main containers
    grace_of(pod)                       # what the pod asks for, or what its deletion allows
    remaining_grace(30, since, now)     # never less than two seconds

The preStop hook and the wait for one's turn come out of the grace. Whatever is left, a container has at least two seconds
between the stop signal and the kill.
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
    """For each container those that must have ended before it is told to stop: sidecars go last, in reverse order."""
    mains = tuple(part.name for part in parts if part.role is not ContainerRole.SIDECAR)
    found: dict[str, tuple[str, ...]] = dict.fromkeys(mains, ())
    before = mains
    for part in reversed([part for part in parts if part.role is ContainerRole.SIDECAR]):
        found[part.name] = before
        before = (*before, part.name)
    return found


def grace_of(pod: Object) -> float:
    """Seconds that a pod has to end: as its deletion says, else as it says itself."""
    allowed = pod.meta.get("deletionGracePeriodSeconds")
    if allowed is not None:
        return float(allowed)
    asked = pod.spec.get("terminationGracePeriodSeconds")
    return DEFAULT if asked is None else float(asked)


def probe_grace(probe: Mapping[str, Any] | None, pod: Object) -> float:
    """Seconds for a container that a probe has condemned."""
    asked = (probe or {}).get("terminationGracePeriodSeconds")
    if asked is not None:
        return float(asked)
    own = pod.spec.get("terminationGracePeriodSeconds")
    return DEFAULT if own is None else float(own)


def remaining_grace(grace: float, since: float, now: float) -> float:
    """Seconds from the stop signal to the kill, after whatever was done since the end began."""
    return max(LEAST, grace - max(0.0, now - since))


def hook_time(grace: float, since: float, now: float) -> float:
    """Seconds that a preStop hook may take; 0 if it isn't worth beginning."""
    return max(0.0, grace - max(0.0, now - since))
