"""Windows of the week in which updates may start.

    window = UpdateWindow.parse({"days": ["Tuesday"], "startTime": "23:00", "length": "2h"})
    window.open_until(now)       # when it closes, if it is open; None if it is closed
    window.next_opening(now)     # when it opens next, if it is closed now

A window belongs to the day on which it opens, also after midnight. Its length is counted in elapsed time, its
start in local time: where clocks are set back or forward, a window of two hours stays one of two hours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from pilothouse.base.duration import parse_duration

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LONGEST: Final = 7 * 24 * 3600.0
"""Seconds. A longer window would be open always, whatever its days."""


class UpdateWindow(msgspec.Struct, frozen=True):
    """Open on some days of the week (0 is Monday), from a time of day on."""

    days: frozenset[int]
    start: time
    length: timedelta
    zone: ZoneInfo

    @classmethod
    def parse(cls, tree: Mapping[str, Any]) -> UpdateWindow:
        """The window in a valid object; no days mean every day, no time zone means UTC."""
        return cls(
            frozenset(DAYS.index(day) for day in tree.get("days") or DAYS),
            time.fromisoformat(tree["startTime"]),
            timedelta(seconds=parse_duration(tree["length"])),
            ZoneInfo(tree.get("timeZone") or "UTC"),
        )

    def open_until(self, now: datetime) -> datetime | None:
        """When the window that is open now closes; the last one, if several overlap."""
        today = now.astimezone(self.zone).date()
        back = self.length // timedelta(days=1) + 1
        ends = (
            opens + self.length
            for opens in self._openings(today - timedelta(days=back), back + 1)
            if opens <= now < opens + self.length
        )
        return max(ends, default=None)

    def next_opening(self, now: datetime) -> datetime:
        """When a window opens next, later than now."""
        today = now.astimezone(self.zone).date()
        return next(opens for opens in self._openings(today, 9) if opens > now)

    def _openings(self, first: date, days: int) -> Iterator[datetime]:
        for number in range(days):
            day = first + timedelta(days=number)
            if day.weekday() in self.days:
                # In UTC, so that sums and comparisons are of elapsed time.
                yield datetime.combine(day, self.start, self.zone).astimezone(ZoneInfo("UTC"))
