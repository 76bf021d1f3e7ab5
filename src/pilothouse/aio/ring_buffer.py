"""A bounded buffer of recent values, addressed by position.

    ring = RingBuffer[str](horizon=10, bounds=Bounds(count=1000))
    ring.append(11, "a", at=now)
    ring.append(14, "b", at=now)     # positions only grow, and may skip
    ring.after(11)                   # ["b"]
    ring.after(9)                    # None: values after 9 were dropped

The oldest values beyond a bound on number, weight or age are dropped; all after ``horizon`` are present. The
newest few are kept even if they weigh more, so that one huge value does not drop all readers.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Bounds(msgspec.Struct, frozen=True):
    count: int = 10_000
    weight: int = 16 * 1024 * 1024
    age: float = 300.0
    """Seconds; checked on ``append`` and by ``forget_old``."""
    least: int = 100
    """This many values are kept beyond ``weight``, up to ``most_weight``."""
    most_weight: int = 32 * 1024 * 1024
    """The hard bound, except for a single value."""


class _Slot(msgspec.Struct, frozen=True, gc=False):
    weight: int
    at: float


class RingBuffer(Generic[T]):
    __slots__ = ("_bounds", "_first", "_positions", "_slots", "_values", "_weight", "horizon")

    def __init__(self, horizon: int, bounds: Bounds) -> None:
        self.horizon = horizon
        self._bounds = bounds
        self._first = 0
        self._positions: list[int] = []
        self._values: list[T | None] = []
        self._slots: list[_Slot] = []
        self._weight = 0

    def __len__(self) -> int:
        return len(self._positions) - self._first

    def append(self, position: int, value: T, *, at: float, weight: int = 0) -> None:
        self._positions.append(position)
        self._values.append(value)
        self._slots.append(_Slot(weight, at))
        self._weight += weight
        bounds = self._bounds
        if self._weight > bounds.weight or len(self._positions) - self._first > bounds.count:
            while len(self) > bounds.least and (len(self) > bounds.count or self._weight > bounds.weight):
                self._drop()
            while len(self) > 1 and self._weight > bounds.most_weight:
                self._drop()
        if self._slots[self._first].at < at - bounds.age:
            self.forget_old(at)

    def after(self, position: int, limit: int = 0) -> list[T] | None:
        """The values above a position, oldest first, at most ``limit``; None if some were dropped."""
        if position < self.horizon:
            return None
        start = bisect_right(self._positions, position, self._first)
        stop = min(start + limit, len(self._values)) if limit else len(self._values)
        # Slots before ``_first`` hold None; from there on there are only values.
        return self._values[start:stop]  # type: ignore[return-value]

    def forget_old(self, now: float) -> None:
        """Drop values beyond the bound on age."""
        oldest = now - self._bounds.age
        while self._first < len(self._slots) and self._slots[self._first].at < oldest:
            self._drop()

    def _drop(self) -> None:
        first = self._first
        self.horizon = self._positions[first]
        self._weight -= self._slots[first].weight
        self._values[first] = None
        self._first = first = first + 1
        if first > 64 and first * 2 > len(self._positions):
            del self._positions[:first], self._values[:first], self._slots[:first]
            self._first = 0
