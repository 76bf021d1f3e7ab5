"""Who is started again, and after how long.

    should_restart(part, ended, "OnFailure")
    backoff_left(pause, finished, now)           # seconds that it must still wait
    pause = next_backoff(pause, finished, now)   # as it is started again

The first restart is at once. From then on a container waits 10 s after its end, then twice as long each time, up to
five minutes; one that ran for ten minutes begins anew.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.container_roles import ContainerRole, PodContainer

FIRST: Final = 10.0
LONGEST: Final = 300.0
FORGOTTEN: Final = 2 * LONGEST
"""Seconds of running after which earlier failures don't count."""


class RestartBackoff(msgspec.Struct, frozen=True):
    """How long a container waits after its next end, and since when that is so."""

    seconds: float
    since: float


def should_restart(part: PodContainer, ended: EndedInstance, policy: str) -> bool:
    """Whether a container that has ended is to run again."""
    if part.role is ContainerRole.SIDECAR:
        return True
    if part.role is ContainerRole.INIT:
        return ended.lost or (not ended.well and policy != "Never")
    return policy == "Always" or (policy == "OnFailure" and not ended.well)


def backoff_left(pause: RestartBackoff | None, finished: float, now: float) -> float:
    """Seconds until a container that ended then may be started again; 0 if it may."""
    if pause is None or _is_old(pause, finished) or _is_granted(pause, finished):
        return 0.0
    return max(0.0, finished + pause.seconds - now)


def next_backoff(pause: RestartBackoff | None, finished: float, now: float) -> RestartBackoff:
    """As it is started again: how long it will wait the next time."""
    if pause is None or _is_old(pause, finished):
        return RestartBackoff(FIRST, now)
    if _is_granted(pause, finished):
        return pause
    return RestartBackoff(min(pause.seconds * 2, LONGEST), now)


def _is_old(pause: RestartBackoff, finished: float) -> bool:
    return finished - pause.since > FORGOTTEN


def _is_granted(pause: RestartBackoff, finished: float) -> bool:
    """Whether this very restart was decided on before, by an agent that did not live to carry it out."""
    return pause.since > finished
