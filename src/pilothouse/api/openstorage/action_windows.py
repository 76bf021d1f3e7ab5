"""The windows of the week in which a rule's actions may start.

    seconds_until_open(spec.action_window, now)     # None if one is open, or there are none
    seconds_until_closed(spec.action_window, now)   # of the one that is open; None if actions may run on

A window whose end is before its start goes on over midnight, and belongs to the day on which it opens.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from pilothouse.api.openstorage.v1alpha1 import ActionWindow, Window

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEK: Final = 9


def seconds_until_open(window: ActionWindow | None, now: float) -> float | None:
    """None if actions may start at this moment, in seconds since 1970."""
    if window is None or not window.enabled:
        return None
    moment = datetime.fromtimestamp(now, UTC)
    zone = ZoneInfo(window.timezone)
    first = moment.astimezone(zone).date() - timedelta(days=1)
    next_opening: datetime | None = None
    for part in window.windows:
        for opens, closes in _openings(part, zone, first):
            if opens <= moment < closes:
                return None
            if opens > moment and (next_opening is None or opens < next_opening):
                next_opening = opens
    return (next_opening - moment).total_seconds() if next_opening is not None else float(_WEEK * 86400)


def seconds_until_closed(window: ActionWindow | None, now: float) -> float | None:
    """Until when an action may go on that only windows allow, 0 if none is open; None without windows."""
    if window is None or not window.enabled:
        return None
    moment = datetime.fromtimestamp(now, UTC)
    zone = ZoneInfo(window.timezone)
    first = moment.astimezone(zone).date() - timedelta(days=1)
    closings = [
        closes
        for part in window.windows
        for opens, closes in _openings(part, zone, first)
        if opens <= moment < closes
    ]
    return (max(closings) - moment).total_seconds() if closings else 0.0


def _openings(window: Window, zone: ZoneInfo, first: date) -> Iterator[tuple[datetime, datetime]]:
    start, end = time_of_day(window.start_time), time_of_day(window.end_time)
    days = {_DAYS.index(day[:3]) for day in window.days_of_week or _DAYS}
    for number in range(_WEEK):
        day = first + timedelta(days=number)
        if day.weekday() in days:
            last = day if start < end else day + timedelta(days=1)
            # In UTC, so that comparisons hold where clocks are set forward or back.
            opens = datetime.combine(day, start, zone).astimezone(UTC)
            yield opens, datetime.combine(last, end, zone).astimezone(UTC)


def time_of_day(text: str) -> time:
    """``22:30`` or ``10:30PM``. Raises ``ValueError``."""
    clock, half = text.strip().lower(), ""
    if clock.endswith(("am", "pm")):
        clock, half = clock[:-2].strip(), clock[-2:]
    hour, _, minute = clock.partition(":")
    hours = int(hour)
    if half:
        hours = hours % 12 + (12 if half == "pm" else 0)
    return time(hours, int(minute))
