"""Evaluates a query at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import promql_parser as ast

from pilothouse.rules.promql.aggregations import WITH_ARGUMENT, aggregate
from pilothouse.rules.promql.binary_operators import (
    SETS,
    Cardinality,
    Matching,
    between,
    scalars,
    set_operation,
    with_scalar,
)
from pilothouse.rules.promql.histograms import histogram_quantile
from pilothouse.rules.promql.label_sets import NAME, LabelSet
from pilothouse.rules.promql.queries import LOOKBACK, Query, offset_of, range_of, selector_of
from pilothouse.rules.promql.query_errors import NotInSubset, QueryError
from pilothouse.rules.promql.range_functions import RANGE_FUNCTIONS, RangeCall
from pilothouse.rules.promql.vectors import Floats, SampleWindow, SeriesSource, Vector, is_stale

Value = float | Vector


def evaluate(query: Query, source: SeriesSource, now: float) -> Vector:
    """The vector that the query comes to; a number is a vector of one series without labels.

    Raises ``QueryError`` or ``NotInSubset``.
    """
    moment = round(now * 1000)
    try:
        with np.errstate(all="ignore"):
            found = _Evaluation(source, moment).value(query.root)
    except RecursionError:
        raise NotInSubset("an expression that is nested so deeply") from None
    if isinstance(found, Vector):
        return found
    return _constant(found, moment, source)


class _Evaluation:
    def __init__(self, source: SeriesSource, now: int) -> None:
        self._source = source
        self._now = now

    def value(self, node: Any) -> Value:
        if isinstance(node, ast.NumberLiteral):
            return node.val
        if isinstance(node, ast.VectorSelector):
            return self._instant(node)
        if isinstance(node, ast.ParenExpr):
            return self.value(node.expr)
        if isinstance(node, ast.UnaryExpr):
            found = self.value(node.expr)
            return -found if isinstance(found, float) else _mapped(found, -found.values)
        if isinstance(node, ast.BinaryExpr):
            return self._binary(node)
        if isinstance(node, ast.AggregateExpr):
            return self._aggregate(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise NotInSubset(type(node).__name__)

    def vector(self, node: Any) -> Vector:
        found = self.value(node)
        if not isinstance(found, Vector):
            raise QueryError("a vector is needed, not a number")
        return found

    def number(self, node: Any) -> float:
        found = self.value(node)
        if isinstance(found, Vector):
            raise QueryError("a number is needed, not a vector")
        return found

    def _instant(self, node: ast.VectorSelector) -> Vector:
        at = self._now - offset_of(node)
        window = self._source.window(selector_of(node), at - round(LOOKBACK * 1000), at)
        last = window.ends - 1
        found = Vector(window.labels, window.values[last], window.times[last])
        return found.chosen(~is_stale(found.values))

    def _window(self, node: Any) -> tuple[SampleWindow, int, int]:
        while isinstance(node, ast.ParenExpr):
            node = node.expr
        if not isinstance(node, ast.MatrixSelector):
            raise NotInSubset("subqueries")
        end = self._now - offset_of(node.vector_selector)
        start = end - range_of(node)
        return _fresh(self._source.window(selector_of(node.vector_selector), start, end)), start, end

    def _binary(self, node: ast.BinaryExpr) -> Value:
        operator, modifier = str(node.op), node.modifier
        left, right = self.value(node.lhs), self.value(node.rhs)
        as_bool = modifier is not None and modifier.return_bool
        if isinstance(left, Vector) and isinstance(right, Vector):
            matching = _matching(modifier)
            if operator in SETS:
                return set_operation(operator, left, right, matching)
            return _unique(between(operator, left, right, matching))
        if isinstance(left, Vector):
            return _unique(with_scalar(operator, left, float(right), swapped=False, as_bool=as_bool))  # type: ignore[arg-type]
        if isinstance(right, Vector):
            return _unique(with_scalar(operator, right, left, swapped=True, as_bool=as_bool))
        return scalars(operator, left, right)

    def _aggregate(self, node: ast.AggregateExpr) -> Vector:
        argument = self.number(node.param) if str(node.op) in WITH_ARGUMENT else 0.0
        modifier = node.modifier
        without = modifier is not None and str(modifier.type).endswith("Without")
        return aggregate(
            str(node.op),
            self.vector(node.expr),
            modifier.labels if modifier is not None else (),
            without=without,
            argument=argument,
        )

    def _call(self, node: ast.Call) -> Value:
        name, args = node.func.name, node.args
        if name in RANGE_FUNCTIONS:
            return self._range_call(name, args)
        if name in _ELEMENTWISE:
            found = self.vector(args[0])
            return _mapped(found, _ELEMENTWISE[name](found.values))
        special: Mapping[str, Callable[[Any], Value]] = {
            "time": lambda _: self._now / 1000,
            "vector": lambda args: _constant(self.number(args[0]), self._now, self._source),
            "scalar": self._scalar,
            "timestamp": self._timestamp,
            "absent": self._absent,
            "absent_over_time": self._absent,
            "histogram_quantile": lambda args: histogram_quantile(self.number(args[0]), self.vector(args[1])),
            "round": self._round,
        }
        if name in special:
            return special[name](args)
        return self._clamp(name, args)

    def _range_call(self, name: str, args: list[Any]) -> Vector:
        argument, of = 0.0, args[0]
        if name == "quantile_over_time":
            argument, of = self.number(args[0]), args[1]
        elif name == "predict_linear":
            argument = self.number(args[1])
        window, start, end = self._window(of)
        if not window.labels:
            return Vector([], np.empty(0), np.empty(0, np.int64))
        chosen, values = RANGE_FUNCTIONS[name](RangeCall(window, start, end, self._now, argument))
        labels = [each for each, kept in zip(window.labels, chosen.tolist(), strict=True) if kept]
        if name != "last_over_time":
            labels = [each.nameless for each in labels]
        return _unique(Vector(labels, values, window.times[window.ends - 1][chosen]))

    def _scalar(self, args: list[Any]) -> float:
        found = self.vector(args[0])
        return float(found.values[0]) if len(found) == 1 else float("nan")

    def _timestamp(self, args: list[Any]) -> Vector:
        node = args[0]
        while isinstance(node, ast.ParenExpr):
            node = node.expr
        found = self.vector(node)
        # The time of a computed value is that of the evaluation.
        raw = isinstance(node, ast.VectorSelector)
        times = found.times if raw else np.full(len(found), self._now, np.int64)
        return _mapped(found, times / 1000)

    def _absent(self, args: list[Any]) -> Vector:
        node = args[0]
        if isinstance(node, ast.MatrixSelector):
            present = bool(self._window(node)[0].labels)
            node = node.vector_selector
        else:
            present = len(self.vector(node)) > 0
        if present:
            return Vector([], np.empty(0), np.empty(0, np.int64))
        labels = _absent_labels(node) if isinstance(node, ast.VectorSelector) else {}
        return Vector([self._source.label_sets.get(labels)], np.ones(1), np.array([self._now], np.int64))

    def _clamp(self, name: str, args: list[Any]) -> Vector:
        found = self.vector(args[0])
        low, high = -np.inf, np.inf
        if name == "clamp":
            low, high = self.number(args[1]), self.number(args[2])
            if high < low:
                return Vector([], np.empty(0), np.empty(0, np.int64))
        elif name == "clamp_min":
            low = self.number(args[1])
        else:
            high = self.number(args[1])
        return _mapped(found, np.maximum(low, np.minimum(high, found.values)))

    def _round(self, args: list[Any]) -> Vector:
        found = self.vector(args[0])
        inverse = 1.0 / np.float64(self.number(args[1]) if len(args) > 1 else 1.0)
        return _mapped(found, np.floor(found.values * inverse + 0.5) / inverse)


_ELEMENTWISE: Final[Mapping[str, Callable[[Floats], Floats]]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "sgn": np.sign,
    "sqrt": np.sqrt,
}


def _constant(value: float, now: int, source: SeriesSource) -> Vector:
    return Vector([source.label_sets.get({})], np.array([value]), np.array([now], np.int64))


def _mapped(vector: Vector, values: Floats) -> Vector:
    return _unique(Vector([each.nameless for each in vector.labels], values, vector.times))


def _unique(vector: Vector) -> Vector:
    if len(set(vector.labels)) < len(vector.labels):
        raise QueryError("vector cannot contain metrics with the same labelset")
    return vector


def _fresh(window: SampleWindow) -> SampleWindow:
    """Without stale marks, and without series of which nothing else is left."""
    stale = is_stale(window.values)
    if not stale.any():
        return window
    kept = ~stale
    counts = np.add.reduceat(kept.astype(np.int64), window.starts)
    labels: list[LabelSet] = [
        each for each, count in zip(window.labels, counts.tolist(), strict=True) if count
    ]
    counts = counts[counts > 0]
    return SampleWindow(labels, np.cumsum(counts) - counts, window.times[kept], window.values[kept])


def _matching(modifier: ast.BinModifier | None) -> Matching:
    if modifier is None:
        return Matching()
    cardinalities: Mapping[str, Cardinality] = {"ManyToOne": "many-to-one", "OneToMany": "one-to-many"}
    named = modifier.matching
    return Matching(
        on=named is not None and str(named.type).endswith("Include"),
        labels=frozenset(named.labels) if named is not None else frozenset(),
        cardinality=cardinalities.get(str(modifier.card).rpartition(".")[2], "one-to-one"),
        include=tuple(modifier.group_labels or ()),
        as_bool=modifier.return_bool,
    )


def _absent_labels(node: ast.VectorSelector) -> dict[str, str]:
    """Those that the selector names literally and once."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for each in node.matchers.matchers:
        if each.name == NAME:
            continue
        if str(each.op).endswith(".Equal") and each.name not in seen:
            found[each.name] = each.value
        else:
            found.pop(each.name, None)
        seen.add(each.name)
    return found
