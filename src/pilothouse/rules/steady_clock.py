"""A clock that goes on evenly when the machine's clock is set.

    steady = SteadyClock(clock)
    clock.now() - steady.ahead       # seconds since 1970, by the clock as it was at the start

The timers of rules are moments of this clock. It agrees with the wall clock until that is set; after a
restart it agrees with it again.
"""

from __future__ import annotations

from pilothouse.base.clock import Clock


class SteadyClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._difference = clock.now() - clock.monotonic()

    @property
    def ahead(self) -> float:
        """By how many seconds the wall clock has been set forward since the start; negative if back."""
        return self._clock.now() - self._clock.monotonic() - self._difference

    def now(self) -> float:
        return self._clock.monotonic() + self._difference
