"""Clocks.

Code that needs the time takes a ``Clock``: the system's in production, one that is moved by hand in tests and
the simulator.

    clock = ManualClock(now=1_700_000_000)
    clock.advance(90)
    clock.now()      # 1700000090.0
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time and monotonic time."""

    def now(self) -> float:
        """Seconds since 1970, UTC; may jump when the machine's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never runs back. For deadlines and intervals."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when it is advanced."""

    __slots__ = ("_monotonic", "_now")

    def __init__(self, now: float = 0.0) -> None:
        self._now = float(now)
        self._monotonic = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        if seconds < 0:
            raise ValueError(f"time does not run back: {seconds}")
        self._now += seconds
        self._monotonic += seconds

    def set(self, now: float) -> None:
        """Set the wall clock, as an operator or NTP would; monotonic time is unaffected."""
        self._now = float(now)
