"""Histograms: plain numbers in a list, cheap enough for every request; without locks, for one thread.

took = Histogram((0.001, 0.01, 0.1))
took.observe(0.004)
took.counts, took.sum          # [0, 1, 0, 0], 0.004
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts values at the first bound that they do not exceed; the last count is of larger values."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
