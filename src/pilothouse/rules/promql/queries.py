"""Expressions, checked against the subset, and what they select.

query = compile_query("rate(requests_total[5m] offset 1h)")
query.selections            # (SeriesSelection(requests_total, 3900 s),)
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec
import promql_parser as ast

from pilothouse.meta import promql
from pilothouse.rules.promql.aggregations import AGGREGATIONS, WITH_ARGUMENT
from pilothouse.rules.promql.binary_operators import ARITHMETIC, COMPARISONS, SETS
from pilothouse.rules.promql.label_sets import NAME
from pilothouse.rules.promql.query_errors import NotInSubset, QueryError
from pilothouse.rules.promql.range_functions import RANGE_FUNCTIONS
from pilothouse.rules.promql.series_selectors import Comparison, LabelMatcher, SeriesSelector, pattern_problem

LOOKBACK: Final = 300.0
"""Seconds for which a sample counts as the present value."""
_COMPARISONS: Final[dict[str, Comparison]] = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
INSTANT_FUNCTIONS: Final = (
    "abs", "absent", "absent_over_time", "ceil", "clamp", "clamp_max", "clamp_min", "exp", "floor",
    "histogram_quantile", "ln", "log10", "log2", "round", "scalar", "sgn", "sqrt", "time", "timestamp",
    "vector",
)  # fmt: skip


class SeriesSelection(msgspec.Struct, frozen=True):
    """Series that an expression reads, and how far back."""

    selector: SeriesSelector
    seconds: float


class Query(msgspec.Struct, frozen=True):
    """An expression that can be evaluated."""

    text: str
    root: Any
    selections: tuple[SeriesSelection, ...]


def compile_query(text: str) -> Query:
    """Raises ``QueryError`` for what is not PromQL, and ``NotInSubset``."""
    try:
        root = promql.parse(text)
    except promql.PromqlError as problem:
        raise QueryError(str(problem)) from None
    return Query(text, root, tuple(_selections(root)))


def selector_of(node: ast.VectorSelector) -> SeriesSelector:
    matchers = [
        LabelMatcher(each.name, _COMPARISONS[str(each.op).rpartition(".")[2]], each.value)
        for each in node.matchers.matchers
    ]
    if node.name:
        matchers.insert(0, LabelMatcher(NAME, "=", node.name))
    return SeriesSelector(tuple(matchers))


def offset_of(node: ast.VectorSelector) -> int:
    """In milliseconds."""
    return _milliseconds(node.offset) if node.offset is not None else 0


def range_of(node: ast.MatrixSelector) -> int:
    """In milliseconds."""
    return _milliseconds(node.range)


def _milliseconds(delta: timedelta) -> int:
    return round(delta.total_seconds() * 1000)


def _selections(root: ast.Expr) -> Iterator[SeriesSelection]:
    """What the tree reads; raises ``NotInSubset`` for what is not implemented anywhere in it."""
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.MatrixSelector):
            yield _selection(node.vector_selector, range_of(node) / 1000)
        elif isinstance(node, ast.VectorSelector):
            yield _selection(node, LOOKBACK)
        elif isinstance(node, ast.ParenExpr | ast.UnaryExpr):
            waiting.append(node.expr)
        elif isinstance(node, ast.BinaryExpr):
            _check_binary(node)
            waiting += (node.lhs, node.rhs)
        elif isinstance(node, ast.AggregateExpr):
            if str(node.op) not in AGGREGATIONS and str(node.op) not in WITH_ARGUMENT:
                raise NotInSubset(f"the aggregation {node.op}")
            waiting.append(node.expr)
            if node.param is not None:
                waiting.append(node.param)
        elif isinstance(node, ast.Call):
            name = node.func.name
            if name not in RANGE_FUNCTIONS and name not in INSTANT_FUNCTIONS:
                raise NotInSubset(f"the function {name}()")
            waiting += node.args
        elif isinstance(node, ast.SubqueryExpr):
            raise NotInSubset("subqueries")
        elif isinstance(node, ast.StringLiteral):
            raise NotInSubset("strings")
        elif not isinstance(node, ast.NumberLiteral):
            raise NotInSubset(type(node).__name__)


def _check_binary(node: ast.BinaryExpr) -> None:
    operator = str(node.op)
    if operator not in ARITHMETIC and operator not in COMPARISONS and operator not in SETS:
        raise NotInSubset(f"the operator {operator}")
    fill = node.modifier.fill_values if node.modifier is not None else None
    if fill is not None and (fill.lhs is not None or fill.rhs is not None):
        raise NotInSubset("the modifier fill")


def _selection(node: ast.VectorSelector, seconds: float) -> SeriesSelection:
    if node.at is not None:
        raise NotInSubset("the modifier @")
    if node.matchers.or_matchers:
        raise NotInSubset("or between matchers")
    for matcher in node.matchers.matchers:
        if str(matcher.op).endswith("Re") and (problem := pattern_problem(matcher.value)):
            raise QueryError(problem)
    return SeriesSelection(selector_of(node), seconds + max(0, offset_of(node)) / 1000)
