"""When an UpdateConfig acts: in windows, or by a schedule.

    window_of({"type": "periodic", "periodic": {"startTime": "13:00", "length": "2h"}})    # that window
    schedule_of({"type": "cron", "cron": "0 3 * * *"})                                     # "0 3 * * *"

``cron`` was documented both as text and as a window. A window there means the same as under ``periodic``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_SCHEDULE = "@hourly"


def window_of(strategy: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The window of a valid strategy; None if it has a schedule."""
    periodic, cron = strategy.get("periodic"), strategy.get("cron")
    if periodic:
        return dict(periodic)
    return dict(cron) if isinstance(cron, Mapping) else None


def schedule_of(strategy: Mapping[str, Any]) -> str | None:
    """The schedule of a valid strategy; None if it has a window."""
    if window_of(strategy) is not None:
        return None
    cron = strategy.get("cron")
    return cron if isinstance(cron, str) and cron else DEFAULT_SCHEDULE
