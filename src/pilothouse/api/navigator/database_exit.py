"""How a Pilot's database ended, if abnormally and not ready since.

crash_of(pilot)        # "it ended with code 1: unknown setting [cluster.nmae]", or empty
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import parse_time

_AT_ONCE: Final = 2.0
"""Seconds after its start in which no database becomes ready and unready again."""


def crash_of(pilot: Object) -> str:
    found: Mapping[str, Any] = pilot.status.get("lastExit") or {}
    if not found or found.get("clean") or pilot.is_true("Ready"):
        return ""
    started = pilot.status.get("lastStartedTime")
    if started and parse_time(started) > parse_time(found["time"]):
        # It has been started again since: has it been ready?
        since = (pilot.condition("Ready") or {}).get("lastTransitionTime")
        if since and parse_time(since) > parse_time(started) + _AT_ONCE:
            return ""
    return ending(found)


def ending(found: Mapping[str, Any]) -> str:
    """The text of a ``status.lastExit``."""
    killed = found.get("signal")
    said = f"it was killed by {killed}" if killed else f"it ended with code {found.get('exitCode')}"
    if found.get("outOfMemory"):
        said += ", out of memory: raise the memory limit, or lower the heap"
    return f"{said}: {found['message']}" if found.get("message") else said
