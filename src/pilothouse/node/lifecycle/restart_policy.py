"""Which containers restart, and the back-off between restarts.

    should_restart(container, ended, "OnFailure")
    backoff_left(backoff, finished, now)             # seconds to wait
    backoff = next_backoff(backoff, finished, now)   # when it restarts

The first restart is immediate; the next wait 10 s, then twice as long each time, up to five minutes. The
back-off is reset when a container has run for ten minutes.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.container_roles import ContainerRole, PodContainer

FIRST: Final = 10.0
LONGEST: Final = 300.0
FORGOTTEN: Final = 2 * LONGEST
"""Seconds of running after which the back-off is reset."""


class RestartBackoff(msgspec.Struct, frozen=True):
    """The back-off of a container's next restart, and when it was set. Stored in the pod's directory."""

    seconds: float
    since: float


def should_restart(container: PodContainer, ended: EndedInstance, policy: str) -> bool:
    if container.role is ContainerRole.SIDECAR:
        return True
    if container.role is ContainerRole.INIT:
        return ended.lost or (not ended.succeeded and policy != "Never")
    return policy == "Always" or (policy == "OnFailure" and not ended.succeeded)


def backoff_left(backoff: RestartBackoff | None, finished: float, now: float) -> float:
    """Seconds until a container that ended at ``finished`` may restart; 0 if it may."""
    if backoff is None or _is_old(backoff, finished) or _is_granted(backoff, finished):
        return 0.0
    return max(0.0, finished + backoff.seconds - now)


def next_backoff(backoff: RestartBackoff | None, finished: float, now: float) -> RestartBackoff:
    if backoff is None or _is_old(backoff, finished):
        return RestartBackoff(FIRST, now)
    if _is_granted(backoff, finished):
        return backoff
    return RestartBackoff(min(backoff.seconds * 2, LONGEST), now)


def _is_old(backoff: RestartBackoff, finished: float) -> bool:
    return finished - backoff.since > FORGOTTEN


def _is_granted(backoff: RestartBackoff, finished: float) -> bool:
    """Whether an earlier agent had decided on this restart and was killed before the start."""
    return backoff.since > finished
