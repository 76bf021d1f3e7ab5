"""Functions of windows: ``rate(x[5m])``, ``avg_over_time(x[1h])``, ``deriv(x[1h])`` …

Each takes a window and returns which of its series have a result, and the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pilothouse.rules.promql.vectors import Floats, SampleWindow

Chosen = NDArray[np.bool_]
Outcome = tuple[Chosen, Floats]


class RangeCall(msgspec.Struct, frozen=True):
    """A window, and the times that it is of."""

    window: SampleWindow
    start: int
    """In milliseconds, as ``end`` and ``now``."""
    end: int
    now: int
    """When the expression is evaluated; ``end`` differs by the offset."""
    argument: float = 0.0
    """The number that some functions take."""


def rate(call: RangeCall) -> Outcome:
    return _extrapolated(call, counter=True, per_second=True)


def increase(call: RangeCall) -> Outcome:
    return _extrapolated(call, counter=True, per_second=False)


def delta(call: RangeCall) -> Outcome:
    return _extrapolated(call, counter=False, per_second=False)


def _extrapolated(call: RangeCall, *, counter: bool, per_second: bool) -> Outcome:
    """The difference of the last and the first sample, extrapolated to the ends of the window, but not
    further than half an interval beyond the samples, and a counter not below zero."""
    window = call.window
    chosen, counts = _at_least(window, 2)
    first, last = _edges(window, chosen)
    values, times = window.values, window.times
    found = values[last] - values[first]
    if counter:
        found = found + _dropped(window)[chosen]
    to_start = (times[first] - call.start) / 1000
    to_end = (call.end - times[last]) / 1000
    sampled = (times[last] - times[first]) / 1000
    between = sampled / (counts - 1)
    if counter:
        to_zero = sampled * (values[first] / found)
        limited = (found > 0) & (values[first] >= 0) & (to_zero < to_start)
        to_start = np.where(limited, to_zero, to_start)
    threshold = between * 1.1
    reached = sampled + np.where(to_start < threshold, to_start, between / 2)
    reached = reached + np.where(to_end < threshold, to_end, between / 2)
    factor = reached / sampled
    if per_second:
        factor = factor / ((call.end - call.start) / 1000)
    return chosen, found * factor


def _dropped(window: SampleWindow) -> Floats:
    """By how much each counter went back in all, which are its restarts."""
    before = np.concatenate((window.values[:1], window.values[:-1]))
    back = window.values < before
    back[window.starts] = False
    return _sums(window, np.where(back, before, 0.0))


def irate(call: RangeCall) -> Outcome:
    chosen, difference, seconds = _last_two(call.window, counter=True)
    return chosen, difference / seconds


def idelta(call: RangeCall) -> Outcome:
    chosen, difference, _ = _last_two(call.window, counter=False)
    return chosen, difference


def _last_two(window: SampleWindow, *, counter: bool) -> tuple[Chosen, Floats, Floats]:
    chosen, _ = _at_least(window, 2)
    _, last = _edges(window, chosen)
    newest, before = window.values[last], window.values[last - 1]
    seconds = (window.times[last] - window.times[last - 1]) / 1000
    difference = newest - before
    if counter:
        difference = np.where(newest < before, newest, difference)
    return chosen, difference, seconds


def deriv(call: RangeCall) -> Outcome:
    chosen, slope, _ = _regression(call.window, None)
    return chosen, slope


def predict_linear(call: RangeCall) -> Outcome:
    chosen, slope, intercept = _regression(call.window, call.now)
    return chosen, slope * call.argument + intercept


def _regression(window: SampleWindow, zero: int | None) -> tuple[Chosen, Floats, Floats]:
    """Slope, and the value at the time ``zero``, of the least squares."""
    chosen, _ = _at_least(window, 2)
    counts = window.counts
    owner = np.repeat(np.arange(len(window.labels)), counts)
    begin = window.times[window.starts] if zero is None else np.full(len(counts), zero, np.int64)
    x = (window.times - begin[owner]) / 1000
    mean_x, mean_y = _sums(window, x) / counts, _sums(window, window.values) / counts
    from_x = x - mean_x[owner]
    slope = _sums(window, from_x * (window.values - mean_y[owner])) / _sums(window, from_x * from_x)
    intercept = mean_y - slope * mean_x
    first = window.values[window.starts]
    constant = (
        np.logical_and.reduceat(window.values == first[owner], window.starts) if len(first) else first > 0
    )
    slope = np.where(constant, np.where(np.isinf(first), np.nan, 0.0), slope)
    intercept = np.where(constant, np.where(np.isinf(first), np.nan, first), intercept)
    return chosen, slope[chosen], intercept[chosen]


def sum_over_time(call: RangeCall) -> Outcome:
    return _all(call.window), _sums(call.window, call.window.values)


def count_over_time(call: RangeCall) -> Outcome:
    return _all(call.window), call.window.counts.astype(np.float64)


def avg_over_time(call: RangeCall) -> Outcome:
    return _all(call.window), _sums(call.window, call.window.values) / call.window.counts


def min_over_time(call: RangeCall) -> Outcome:
    return _all(call.window), _reduced(np.fmin, call.window)


def max_over_time(call: RangeCall) -> Outcome:
    return _all(call.window), _reduced(np.fmax, call.window)


def last_over_time(call: RangeCall) -> Outcome:
    return _all(call.window), call.window.values[call.window.ends - 1]


def present_over_time(call: RangeCall) -> Outcome:
    return _all(call.window), np.ones(len(call.window.labels))


def stdvar_over_time(call: RangeCall) -> Outcome:
    window, counts = call.window, call.window.counts
    mean = np.repeat(_sums(window, window.values) / counts, counts)
    return _all(window), _sums(window, (window.values - mean) ** 2) / counts


def stddev_over_time(call: RangeCall) -> Outcome:
    chosen, variance = stdvar_over_time(call)
    return chosen, np.sqrt(variance)


def quantile_over_time(call: RangeCall) -> Outcome:
    window = call.window
    parts = np.split(window.values, window.starts[1:]) if len(window.labels) else []
    return _all(window), np.array([quantile(call.argument, each) for each in parts], np.float64)


def changes(call: RangeCall) -> Outcome:
    window = call.window
    before = np.concatenate((window.values[:1], window.values[:-1]))
    differs = (window.values != before) & ~(np.isnan(window.values) & np.isnan(before))
    differs[window.starts] = False
    return _all(window), _sums(window, differs.astype(np.float64))


def resets(call: RangeCall) -> Outcome:
    window = call.window
    before = np.concatenate((window.values[:1], window.values[:-1]))
    back = window.values < before
    back[window.starts] = False
    return _all(window), _sums(window, back.astype(np.float64))


def quantile(q: float, values: Floats) -> float:
    """As Prometheus interpolates it; NaN is the smallest value."""
    if len(values) == 0 or np.isnan(q):
        return float("nan")
    if q < 0 or q > 1:
        return float("-inf") if q < 0 else float("inf")
    missing = np.isnan(values)
    ordered = np.concatenate((values[missing], np.sort(values[~missing])))
    rank = q * (len(ordered) - 1)
    lower = int(np.floor(rank))
    upper = min(len(ordered) - 1, lower + 1)
    weight = rank - lower
    return float(ordered[lower] * (1 - weight) + ordered[upper] * weight)


def _at_least(window: SampleWindow, samples: int) -> tuple[Chosen, NDArray[np.int64]]:
    counts = window.counts
    chosen: Chosen = counts >= samples
    return chosen, counts[chosen]


def _edges(window: SampleWindow, chosen: Chosen) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of the first and the last sample of the chosen series."""
    return window.starts[chosen], window.ends[chosen] - 1


def _all(window: SampleWindow) -> Chosen:
    return np.ones(len(window.labels), np.bool_)


def _sums(window: SampleWindow, values: Floats) -> Floats:
    return np.add.reduceat(values, window.starts) if len(window.starts) else np.empty(0)


def _reduced(function: np.ufunc, window: SampleWindow) -> Floats:
    if not len(window.starts):
        return np.empty(0)
    found: Floats = function.reduceat(window.values, window.starts)
    return found


RANGE_FUNCTIONS: Final[Mapping[str, Callable[[RangeCall], Outcome]]] = {
    each.__name__: each
    for each in (
        rate, increase, delta, irate, idelta, deriv, predict_linear, changes, resets, sum_over_time,
        count_over_time, avg_over_time, min_over_time, max_over_time, last_over_time, present_over_time,
        stdvar_over_time, stddev_over_time, quantile_over_time,
    )
}  # fmt: skip
