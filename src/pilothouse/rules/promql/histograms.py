"""``histogram_quantile`` of classic histograms, whose buckets are series with the label ``le``."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

import numpy as np

from pilothouse.rules.promql.label_sets import LabelSet
from pilothouse.rules.promql.vectors import Vector

_BOUND: Final = "le"
_NOT_COPIED: Final = frozenset({_BOUND})


def histogram_quantile(q: float, vector: Vector) -> Vector:
    """One value for each histogram; series without a bound are left out."""
    buckets: dict[LabelSet, list[tuple[float, float]]] = defaultdict(list)
    times: dict[LabelSet, int] = {}
    for labels, value, time in zip(vector.labels, vector.values.tolist(), vector.times.tolist(), strict=True):
        try:
            bound = float(labels.labels[_BOUND])
        except (KeyError, ValueError):
            continue
        of = labels.without(_NOT_COPIED)
        buckets[of].append((bound, value))
        times[of] = min(times.get(of, time), time)
    found = [_quantile(q, each) for each in buckets.values()]
    return Vector(list(buckets), np.array(found, np.float64), np.array(list(times.values()), np.int64))


def _quantile(q: float, buckets: list[tuple[float, float]]) -> float:
    if math.isnan(q):
        return math.nan
    if q < 0 or q > 1:
        return -math.inf if q < 0 else math.inf
    merged: dict[float, float] = {}
    for bound, count in sorted(buckets, key=lambda each: each[0]):
        merged[bound] = merged.get(bound, 0.0) + count
    bounds, counts = list(merged), list(merged.values())
    if not bounds or bounds[-1] != math.inf or len(bounds) < 2:
        return math.nan
    for number in range(1, len(counts)):
        # Buckets are scraped at different moments, or are rates: a count may be a little below the last.
        if not counts[number] > counts[number - 1]:
            counts[number] = counts[number - 1]
    observations = counts[-1]
    if observations == 0 or math.isnan(observations):
        return math.nan
    rank = q * observations
    at = next((number for number, count in enumerate(counts[:-1]) if count >= rank), len(counts) - 1)
    if at == len(counts) - 1:
        return bounds[-2]
    if at == 0 and bounds[0] <= 0:
        return bounds[0]
    below, start = (counts[at - 1], bounds[at - 1]) if at else (0.0, 0.0)
    count = counts[at] - below
    return start + (bounds[at] - start) * ((rank - below) / count) if count else math.nan
