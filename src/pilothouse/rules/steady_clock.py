"""A clock that goes on evenly when the machine's clock is set.

    steady = SteadyClock(clock)
    clock.now() - steady.ahead       # seconds since 1970, by the clock as it was at the start
    steady.moment(action.created)    # the same of what was written by the wall clock

The timers of rules are moments of this clock. It agrees with the wall clock until that is set; after a
restart it agrees with it again.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from pilothouse.base.clock import Clock

_SET: Final = 1.0
"""A difference of fewer seconds is no clock that was set; nor is it told apart in a time that was written."""
_MOST_SPANS: Final = 16


class _Span(msgspec.Struct):
    """A time in which the wall clock was not set, by the steady clock."""

    began: float
    ahead: float
    ended: float = math.inf


class SteadyClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._difference = clock.now() - clock.monotonic()
        self._spans = [_Span(-math.inf, 0.0)]
        self._looked = self.now()

    @property
    def ahead(self) -> float:
        """By how many seconds the wall clock has been set forward since the start; negative if back."""
        ahead, now, last = self._clock.now() - self.now(), self.now(), self._spans[-1]
        if abs(ahead - last.ahead) >= _SET:
            # It was set at some time since the last look.
            last.ended = now
            self._spans = [*self._spans, _Span(self._looked, ahead)][-_MOST_SPANS:]
        self._looked = now
        return ahead

    @property
    def aheads(self) -> frozenset[float]:
        """By how many seconds the wall clock has been ahead at any time."""
        return frozenset(span.ahead for span in self._spans)

    def moment(self, wall: float) -> float:
        """The time of this clock at which the wall clock had this time: the latest one if there were several.
        If there was none, as for a time by another machine's clock, the time itself."""
        now = self.now()
        for span in reversed(self._spans):
            if span.began - _SET <= wall - span.ahead <= min(span.ended, now) + _SET:
                return wall - span.ahead
        return wall

    def now(self) -> float:
        return self._clock.monotonic() + self._difference
