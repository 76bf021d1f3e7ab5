"""Scraped series in memory: only those that an expression selects, as far back as it looks, up to a size.

    store = SeriesStore()
    store.keep([compile_query("rate(requests_total[5m])")])
    store.add("node/n1", time, {labels: 1.5})
    store.window(selector, start, end)

Series of one target and name form a table with a column for each scrape. Within ``SPACING`` the newest column
is replaced by the next, so that frequent scrapes do not need more room. A metric that does not fit is dropped
as a whole: part of its history would give wrong results.

Pods write their pages themselves, so they get half of the room at most: beyond that, the namespace whose pods
take most is dropped, and the metrics of all others stay. Two pages may have a series with the same labels,
such as two ports of one pod. The first counts, of nodes before pods: else no rule could use the metric.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pilothouse.rules.promql.label_sets import NAME, LabelSet, LabelSets
from pilothouse.rules.promql.queries import Query, SeriesSelection
from pilothouse.rules.promql.series_selectors import SeriesSelector
from pilothouse.rules.promql.vectors import (
    STALE,
    Floats,
    SampleWindow,
    Times,
    concatenated,
    is_stale,
)

LARGEST: Final = 64 * 2**20
"""Of all series, in bytes."""
SPACING: Final = 14_000
"""Milliseconds between two columns that are kept."""
_PER_SERIES: Final = 600
"""Bytes that the labels of a series take, roughly, unless they are many or long."""
_USUAL_TEXT: Final = 1024
_USUAL_LABELS: Final = 8
_PER_LABEL: Final = 256
_ABSENT_BITS: Final = 0x7FF0000000000003
_ABSENT: Final[float] = float(np.array([_ABSENT_BITS], np.int64).view(np.float64)[0])
"""A NaN that stands for no sample."""

log = logging.getLogger(__name__)


class WantedSeries:
    """Which series expressions select, and for how many milliseconds each metric is kept."""

    def __init__(self, queries: Iterable[Query] = ()) -> None:
        selections = {selection for query in queries for selection in query.selections}
        self._named: dict[str, list[SeriesSelection]] = {}
        self._unnamed: list[SeriesSelection] = []
        self._whole: set[str] = set()
        """Names of metrics of which each series is selected."""
        for each in selections:
            if each.selector.name:
                self._named.setdefault(each.selector.name, []).append(each)
                if len(each.selector.matchers) == 1:
                    self._whole.add(each.selector.name)
            else:
                self._unnamed.append(each)

    def __bool__(self) -> bool:
        return bool(self._named or self._unnamed)

    def selections(self, name: str) -> Sequence[SeriesSelection]:
        """Those that may select series of this name."""
        found = self._named.get(name, [])
        if self._unnamed:
            fits = [
                each
                for each in self._unnamed
                if all(one.holds(name) for one in each.selector.matchers if one.label == NAME)
            ]
            return [*found, *fits]
        return found

    def selects(self, labels: Mapping[str, str]) -> bool:
        name = labels.get(NAME, "")
        return name in self._whole or any(each.selector.selects(labels) for each in self.selections(name))

    def milliseconds(self, name: str) -> int:
        return max((round(each.seconds * 1000) for each in self.selections(name)), default=0)


class SeriesStore:
    def __init__(self, largest: int = LARGEST) -> None:
        self.label_sets = LabelSets()
        self.wanted = WantedSeries()
        self.refused: set[str] = set()
        """Names of metrics that do not fit."""
        self.refused_namespaces: set[str] = set()
        """Whose pods have more series than fit."""
        self._namespaces: dict[str, str] = {}
        """Of the targets that are pods."""
        self.largest = largest
        """Of all series, in bytes."""
        self._tables: dict[str, dict[str, _Table]] = {}
        """By name, then by target."""
        self.size = 0
        """In bytes, roughly."""

    @property
    def series(self) -> int:
        return sum(len(table.labels) for targets in self._tables.values() for table in targets.values())

    def keep(self, queries: Collection[Query]) -> None:
        """Keep what these select, and drop the rest."""
        self.wanted = WantedSeries(queries)
        self.refused.clear()
        self.refused_namespaces.clear()
        for name, targets in list(self._tables.items()):
            if not self.wanted.selections(name):
                del self._tables[name]
                continue
            for table in targets.values():
                table.only(self.wanted.selects)
        self._count()
        self._forget_labels()

    def add(self, target: str, time: int, samples: Mapping[LabelSet, float], namespace: str = "") -> None:
        """What a target's page had at a time; series that were there before and are not now become stale.
        ``namespace`` is that of a pod, and empty for a node."""
        if namespace:
            self._namespaces[target] = namespace
        if namespace in self.refused_namespaces:
            return
        by_name: dict[str, dict[LabelSet, float]] = {}
        for labels, value in samples.items():
            by_name.setdefault(labels.labels.get(NAME, ""), {})[labels] = value
        for name, targets in self._tables.items():
            if target in targets and name not in by_name:
                by_name[name] = {}
        for name, found in by_name.items():
            if name in self.refused:
                continue
            tables = self._tables.setdefault(name, {})
            if target not in tables:
                tables[target] = _Table()
                self.size += tables[target].size
            table = tables[target]
            self.size -= table.size
            table.append(time, found, time - self.wanted.milliseconds(name))
            self.size += table.size
            if not table.labels:
                self.size -= table.size
                del tables[target]
            if not tables:
                del self._tables[name]
        while self.size > self.largest:
            self._refuse_largest()

    def is_measured_by_nodes(self, name: str) -> bool:
        """Whether there are series of this name that are not from pods."""
        return any(target not in self._namespaces for target in self._tables.get(name, {}))

    def retain(self, targets: Collection[str], namespaces: Collection[str] = ()) -> None:
        """Drop the series of all other targets. ``namespaces``: those of pods that may have none here."""
        known = set(targets)
        self._namespaces = {target: each for target, each in self._namespaces.items() if target in known}
        self.refused_namespaces &= {*self._namespaces.values(), *namespaces}
        for name, tables in list(self._tables.items()):
            self._tables[name] = {target: each for target, each in tables.items() if target in known}
            if not self._tables[name]:
                del self._tables[name]
        self._count()
        if len(self.label_sets) > 4 * self.series + 1000:
            self._forget_labels()

    def window(self, selector: SeriesSelector, start: int, end: int, *, of_pods: bool = True) -> SampleWindow:
        named = selector.name
        groups = [self._tables.get(named, {})] if named else list(self._tables.values())
        tables = [(target in self._namespaces, each) for group in groups for target, each in group.items()]
        tables.sort(key=lambda one: one[0])
        seen: set[LabelSet] = set()
        chosen = [table for is_pod, table in tables if of_pods or not is_pod]
        return concatenated([table.window(selector, start, end, seen) for table in chosen])

    def _refuse_largest(self) -> None:
        pods: dict[str, int] = {}
        for targets in self._tables.values():
            for target, table in targets.items():
                if namespace := self._namespaces.get(target):
                    pods[namespace] = pods.get(namespace, 0) + table.size
        if sum(pods.values()) > self.largest // 2:
            self._refuse_namespace(max(pods, key=lambda namespace: pods[namespace]))
            return
        sizes = {
            name: sum(table.size for table in targets.values()) for name, targets in self._tables.items()
        }
        largest = max(sizes, key=lambda name: sizes[name])
        del self._tables[largest]
        self.refused.add(largest)
        self._count()
        self._forget_labels()

    def _refuse_namespace(self, namespace: str) -> None:
        log.warning("the pods of namespace %s have more series than can be kept; all are dropped", namespace)
        self.refused_namespaces.add(namespace)
        for name, tables in list(self._tables.items()):
            kept = {each: table for each, table in tables.items() if self._namespaces.get(each) != namespace}
            if kept:
                self._tables[name] = kept
            else:
                del self._tables[name]
        self._count()
        self._forget_labels()

    def _count(self) -> None:
        tables = (table for targets in self._tables.values() for table in targets.values())
        self.size = sum(table.size for table in tables)

    def _forget_labels(self) -> None:
        tables = (table for targets in self._tables.values() for table in targets.values())
        self.label_sets.retain(frozenset(labels for table in tables for labels in table.labels))


class NodeSeries:
    """The series of a store that are not from pods."""

    def __init__(self, store: SeriesStore) -> None:
        self._store = store

    @property
    def label_sets(self) -> LabelSets:
        return self._store.label_sets

    def window(self, selector: SeriesSelector, start: int, end: int) -> SampleWindow:
        return self._store.window(selector, start, end, of_pods=False)


class _Table:
    """Series by row, scrapes by column."""

    def __init__(self) -> None:
        self.labels: list[LabelSet] = []
        self._rows: dict[LabelSet, int] = {}
        self._times: Times = np.empty(4, np.int64)
        self._values: Floats = np.empty((0, 4), np.float64)
        self._columns = 0
        self._label_bytes = 0
        self._chosen: dict[SeriesSelector, NDArray[np.int64]] = {}

    @property
    def size(self) -> int:
        return self._values.nbytes + self._times.nbytes + self._label_bytes

    def append(self, time: int, samples: Mapping[LabelSet, float], oldest: int) -> None:
        """A column, or the last one anew. Columns before ``oldest`` may be dropped."""
        if self._columns and self._times[self._columns - 1] >= time:
            # The clock was set back.
            self._columns = int(np.searchsorted(self._times[: self._columns], time))
        replaces = (
            self._columns >= 2 and self._times[self._columns - 1] - self._times[self._columns - 2] < SPACING
        )
        if not replaces:
            self._make_room(oldest)
        self._add_rows(samples)
        column = np.full(len(self.labels), _ABSENT)
        if samples:
            positions = np.fromiter((self._rows[each] for each in samples), np.int64, len(samples))
            column[positions] = np.fromiter(samples.values(), np.float64, len(samples))
        if self._columns:
            last = self._values[:, self._columns - 1]
            ended = _is_absent(column) & ~_is_absent(last)
            if not replaces:
                ended &= ~is_stale(last)
            column[ended] = STALE
        if replaces:
            self._columns -= 1
        self._times[self._columns] = time
        self._values[:, self._columns] = column
        self._columns += 1

    def _add_rows(self, samples: Mapping[LabelSet, float]) -> None:
        added = [each for each in samples if each not in self._rows]
        if not added:
            return
        for each in added:
            self._rows[each] = len(self.labels)
            self.labels.append(each)
            self._label_bytes += size_of(each)
        empty = np.full((len(added), self._values.shape[1]), _ABSENT)
        self._values = np.concatenate((self._values, empty))
        self._chosen.clear()

    def _make_room(self, oldest: int) -> None:
        """For one more column: drop expired columns and ended rows, else widen the table."""
        if self._columns < len(self._times):
            return
        first = int(np.searchsorted(self._times[: self._columns], oldest))
        left = self._columns - first
        width = len(self._times) if first > len(self._times) // 8 else left + max(4, left // 4)
        kept = self._values[:, first:]
        self._keep_rows(np.any(~(_is_absent(kept) | is_stale(kept)), axis=1))
        times, values = np.empty(width, np.int64), np.full((len(self.labels), width), _ABSENT)
        times[:left] = self._times[first:]
        values[:, :left] = self._values[:, first:]
        self._times, self._values, self._columns = times, values, left

    def only(self, wanted: Callable[[Mapping[str, str]], bool]) -> None:
        """Drop the rows of which this is not true."""
        self._keep_rows(np.array([wanted(each.labels) for each in self.labels], np.bool_))

    def _keep_rows(self, alive: NDArray[np.bool_]) -> None:
        if not alive.all():
            self._values = self._values[alive]
            self.labels = [each for each, kept in zip(self.labels, alive.tolist(), strict=True) if kept]
            self._rows = {each: row for row, each in enumerate(self.labels)}
            self._label_bytes = sum(map(size_of, self.labels))
            self._chosen.clear()

    def window(self, selector: SeriesSelector, start: int, end: int, seen: set[LabelSet]) -> SampleWindow:
        """Without series whose labels were seen; those that are found are seen from now on."""
        rows = self._chosen.get(selector)
        if rows is None:
            rows = np.array(
                [row for row, each in enumerate(self.labels) if selector.selects(each.labels)], np.int64
            )
            self._chosen[selector] = rows
        if not seen.isdisjoint(self._rows):
            rows = rows[[self.labels[row] not in seen for row in rows.tolist()]]
        first, last = np.searchsorted(self._times[: self._columns], (start, end + 1))
        values = self._values[rows, first:last]
        present = ~_is_absent(values)
        counts = present.sum(axis=1, dtype=np.int64)
        labels = [
            self.labels[row] for row, count in zip(rows.tolist(), counts.tolist(), strict=True) if count
        ]
        seen.update(labels)
        counts = counts[counts > 0]
        times = np.broadcast_to(self._times[first:last], values.shape)
        return SampleWindow(labels, np.cumsum(counts) - counts, times[present], values[present])


def size_of(series: LabelSet) -> int:
    """Bytes that the labels of a series take, roughly."""
    text = sum(map(sys.getsizeof, series.labels)) + sum(map(sys.getsizeof, series.labels.values()))
    more = len(series.labels) - _USUAL_LABELS
    return _PER_SERIES + max(0, text - _USUAL_TEXT) + max(0, more) * _PER_LABEL


def _is_absent(values: Floats) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.ascontiguousarray(values).view(np.int64) == _ABSENT_BITS
    return found
