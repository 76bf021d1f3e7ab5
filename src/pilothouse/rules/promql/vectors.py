"""What expressions come to: a number, a vector, or a window of samples.

    Vector([labels], np.array([0.5]), np.array([1730000000000]))

Times are whole milliseconds since 1970, as in Prometheus.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from pilothouse.rules.promql.label_sets import LabelSet, LabelSets
from pilothouse.rules.promql.series_selectors import SeriesSelector

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

_STALE_BITS: Final = 0x7FF0000000000002
STALE: Final[float] = float(np.array([_STALE_BITS], np.int64).view(np.float64)[0])
"""Prometheus' mark for a series that was not on its page any more: a NaN unlike others."""


def is_stale(values: Floats) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.ascontiguousarray(values).view(np.int64) == _STALE_BITS
    return found


class Vector(msgspec.Struct, frozen=True):
    """Values of series at one moment."""

    labels: Sequence[LabelSet]
    values: Floats
    times: Times
    """Of the oldest sample that each value depends on; of a window its newest counts."""

    def __len__(self) -> int:
        return len(self.labels)

    def chosen(self, which: NDArray[np.bool_]) -> Vector:
        labels = [each for each, chosen in zip(self.labels, which.tolist(), strict=True) if chosen]
        return Vector(labels, self.values[which], self.times[which])

    def taken(self, positions: Sequence[int]) -> Vector:
        where = np.array(positions, np.int64)
        return Vector([self.labels[each] for each in positions], self.values[where], self.times[where])


class SampleWindow(msgspec.Struct, frozen=True):
    """Samples of series within a time, oldest first; every series has at least one."""

    labels: Sequence[LabelSet]
    starts: NDArray[np.int64]
    """Where each series begins in ``times`` and ``values``."""
    times: Times
    values: Floats

    @property
    def ends(self) -> NDArray[np.int64]:
        return np.append(self.starts[1:], len(self.values))[: len(self.starts)]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.starts, append=len(self.values))


class SeriesSource(Protocol):
    """Where series are."""

    @property
    def label_sets(self) -> LabelSets:
        """Those of all its series."""

    def window(self, selector: SeriesSelector, start: int, end: int) -> SampleWindow:
        """The samples of the selected series from ``start`` to ``end``, both included, with stale marks."""


def concatenated(windows: Sequence[SampleWindow]) -> SampleWindow:
    """The series of several windows in one."""
    if len(windows) == 1:
        return windows[0]
    counts = np.concatenate([each.counts for each in windows]) if windows else np.empty(0, np.int64)
    return SampleWindow(
        [labels for each in windows for labels in each.labels],
        np.cumsum(counts) - counts,
        np.concatenate([each.times for each in windows]) if windows else np.empty(0, np.int64),
        np.concatenate([each.values for each in windows]) if windows else np.empty(0, np.float64),
    )
