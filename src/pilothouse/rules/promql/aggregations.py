"""Aggregation over series: ``sum by (namespace) (…)``, ``topk(3, …)`` …"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pilothouse.rules.promql.label_sets import LabelSet
from pilothouse.rules.promql.range_functions import quantile
from pilothouse.rules.promql.vectors import Floats, Vector

Order = NDArray[np.int64]


def aggregate(
    operator: str, vector: Vector, labels: Sequence[str], *, without: bool, argument: float
) -> Vector:
    """One value for each group; ``topk`` and ``bottomk`` return series of the group."""
    if not len(vector):
        return vector
    named = frozenset(labels)
    groups: dict[LabelSet, int] = {}
    of = np.array(
        [
            groups.setdefault(each.without(named) if without else each.only(named), len(groups))
            for each in vector.labels
        ],
        np.int64,
    )
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(len(groups)))
    if operator in ("topk", "bottomk"):
        return vector.taken(_best(vector.values, order, starts, argument, largest=operator == "topk"))
    values = vector.values[order]
    times = np.minimum.reduceat(vector.times[order], starts)
    if operator == "quantile":
        parts = np.split(values, starts[1:])
        return Vector(list(groups), np.array([quantile(argument, each) for each in parts]), times)
    return Vector(list(groups), AGGREGATIONS[operator](values, starts), times)


def _best(values: Floats, order: Order, starts: Order, k: float, *, largest: bool) -> list[int]:
    count = int(k) if k >= 1 else 0
    found: list[int] = []
    for group in np.split(order, starts[1:]):
        sign = -1 if largest else 1
        # NaN is last in either order.
        ranked = group[np.argsort(sign * values[group], kind="stable")]
        found += ranked[:count].tolist()
    return found


def _counts(values: Floats, starts: Order) -> Order:
    return np.diff(starts, append=len(values))


def _sum(values: Floats, starts: Order) -> Floats:
    return np.add.reduceat(values, starts)


def _avg(values: Floats, starts: Order) -> Floats:
    return _sum(values, starts) / _counts(values, starts)


def _stdvar(values: Floats, starts: Order) -> Floats:
    counts = _counts(values, starts)
    mean = np.repeat(_avg(values, starts), counts)
    # That of one value is zero, even of an infinite one.
    return np.where(counts == 1, 0.0, _sum((values - mean) ** 2, starts) / counts)


AGGREGATIONS: Final[Mapping[str, Callable[[Floats, Order], Floats]]] = {
    "sum": _sum,
    "avg": _avg,
    "min": lambda values, starts: np.fmin.reduceat(values, starts),
    "max": lambda values, starts: np.fmax.reduceat(values, starts),
    "count": lambda values, starts: _counts(values, starts).astype(np.float64),
    "group": lambda values, starts: np.ones(len(starts)),
    "stdvar": _stdvar,
    "stddev": lambda values, starts: np.sqrt(_stdvar(values, starts)),
}
WITH_ARGUMENT: Final = ("topk", "bottomk", "quantile")
