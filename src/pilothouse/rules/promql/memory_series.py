"""Series of a file, all in memory: for fixtures and backtests.

    series = MemorySeries()
    series.add({"__name__": "used_bytes", "pod": "a"}, times, values)

Series with the same times, as most of a file have, form a table: a window of all of them is one slice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from pilothouse.rules.promql.label_sets import NAME, LabelSet, LabelSets
from pilothouse.rules.promql.series_selectors import SeriesSelector
from pilothouse.rules.promql.vectors import Floats, SampleWindow, Times, concatenated


class MemorySeries:
    def __init__(self) -> None:
        self.label_sets = LabelSets()
        self._added: dict[LabelSet, tuple[Times, Floats]] = {}
        self._tables: dict[str, list[_Table]] | None = None

    def add(self, labels: Mapping[str, str], times: Iterable[int], values: Iterable[float]) -> None:
        """Samples of a series, whose times in milliseconds ascend."""
        when = np.fromiter(times, np.int64)
        self._added[self.label_sets.get(labels)] = when, np.fromiter(values, np.float64)
        self._tables = None

    def copy(self) -> MemorySeries:
        """With values of its own."""
        found = MemorySeries()
        for labels, (times, values) in self._added.items():
            found.add(labels.labels, times, values)
        return found

    def __len__(self) -> int:
        return len(self._added)

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last time; zeros without samples."""
        edges = [(times[0], times[-1]) for times, _ in self._added.values() if len(times)]
        if not edges:
            return 0, 0
        return int(min(first for first, _ in edges)), int(max(last for _, last in edges))

    def all(self) -> Iterable[tuple[LabelSet, Times, Floats]]:
        """Every series; its values may be changed, to model what would be otherwise."""
        self._tabled()
        return ((labels, *samples) for labels, samples in self._added.items())

    def samples(self, selector: SeriesSelector) -> list[tuple[LabelSet, Times, Floats]]:
        """All samples of the selected series."""
        return [each for each in self.all() if selector.selects(each[0].labels)]

    def window(self, selector: SeriesSelector, start: int, end: int) -> SampleWindow:
        tables = self._tabled()
        named = selector.name
        groups = [tables.get(named, [])] if named else list(tables.values())
        return concatenated([table.window(selector, start, end) for group in groups for table in group])

    def _tabled(self) -> dict[str, list[_Table]]:
        if self._tables is not None:
            return self._tables
        groups: dict[tuple[str, bytes], list[LabelSet]] = defaultdict(list)
        for labels, (times, _) in self._added.items():
            groups[labels.labels.get(NAME, ""), times.tobytes()].append(labels)
        self._tables = defaultdict(list)
        for (name, _), members in groups.items():
            times = self._added[members[0]][0]
            values = np.stack([self._added[each][1] for each in members])
            for row, each in enumerate(members):
                # A view: what is changed there is changed in the table.
                self._added[each] = times, values[row]
            self._tables[name].append(_Table(members, times, values))
        return self._tables


class _Table:
    def __init__(self, labels: list[LabelSet], times: Times, values: Floats) -> None:
        self._labels = labels
        self._times = times
        self._values = values
        self._chosen: dict[SeriesSelector, tuple[list[LabelSet], NDArray[np.int64]]] = {}

    def window(self, selector: SeriesSelector, start: int, end: int) -> SampleWindow:
        if selector not in self._chosen:
            rows = [row for row, each in enumerate(self._labels) if selector.selects(each.labels)]
            self._chosen[selector] = [self._labels[row] for row in rows], np.array(rows, np.int64)
        labels, rows_of = self._chosen[selector]
        first, last = np.searchsorted(self._times, (start, end + 1))
        width = int(last - first)
        if not width or not labels:
            return SampleWindow([], np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        every = len(labels) == len(self._labels)
        values = self._values[:, first:last] if every else self._values[rows_of, first:last]
        return SampleWindow(
            labels,
            np.arange(len(labels), dtype=np.int64) * width,
            np.tile(self._times[first:last], len(labels)),
            values.ravel(),
        )
