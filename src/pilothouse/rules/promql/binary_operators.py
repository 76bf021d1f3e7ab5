"""Operators between numbers and vectors, with Prometheus' matching of series."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from pilothouse.rules.promql.label_sets import LabelSet
from pilothouse.rules.promql.query_errors import QueryError
from pilothouse.rules.promql.vectors import Floats, Vector

Cardinality = Literal["one-to-one", "many-to-one", "one-to-many"]

ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Floats]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
}
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], NDArray[np.bool_]]]] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}
SETS: Final = ("and", "or", "unless")


class Matching(msgspec.Struct, frozen=True):
    """How the series of two vectors are matched."""

    on: bool = False
    """By ``labels`` alone; else by all but these."""
    labels: frozenset[str] = frozenset()
    cardinality: Cardinality = "one-to-one"
    include: tuple[str, ...] = ()
    """Labels that are taken over from the "one" side."""
    as_bool: bool = False

    def signatures(self, vector: Vector) -> list[LabelSet]:
        if self.on:
            return [each.only(self.labels) for each in vector.labels]
        if not self.labels:
            return [each.nameless for each in vector.labels]
        return [each.without(self.labels) for each in vector.labels]


def scalars(operator: str, left: float, right: float) -> float:
    function = ARITHMETIC.get(operator) or COMPARISONS[operator]
    return float(function(np.float64(left), np.float64(right)))


def with_scalar(operator: str, vector: Vector, scalar: float, *, swapped: bool, as_bool: bool) -> Vector:
    """``vector OP scalar``, or ``scalar OP vector`` if swapped."""
    sides = (scalar, vector.values) if swapped else (vector.values, scalar)
    if operator in ARITHMETIC:
        return Vector([each.nameless for each in vector.labels], ARITHMETIC[operator](*sides), vector.times)
    holds = COMPARISONS[operator](*sides)
    if as_bool:
        return Vector([each.nameless for each in vector.labels], holds.astype(np.float64), vector.times)
    return vector.chosen(holds)


def set_operation(operator: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    lefts, rights = matching.signatures(left), matching.signatures(right)
    if operator == "or":
        known = set(lefts)
        added = right.taken([number for number, each in enumerate(rights) if each not in known])
        return Vector(
            [*left.labels, *added.labels],
            np.concatenate((left.values, added.values)),
            np.concatenate((left.times, added.times)),
        )
    others = set(rights)
    wanted = operator == "and"
    return left.taken([number for number, each in enumerate(lefts) if (each in others) == wanted])


def between(operator: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """Arithmetic or comparison of two vectors. Raises ``QueryError`` if several series match one."""
    if not len(left) or not len(right):
        return Vector([], np.empty(0), np.empty(0, np.int64))
    swapped = matching.cardinality == "one-to-many"
    many, one = (right, left) if swapped else (left, right)
    at: dict[LabelSet, int] = {}
    for number, signature in enumerate(matching.signatures(one)):
        if signature in at:
            side = "left" if swapped else "right"
            raise QueryError(
                f"found duplicate series for the match group {signature} on the {side} hand-side of the "
                "operation; many-to-many matching not allowed: matching labels must be unique on one side"
            )
        at[signature] = number
    signatures = matching.signatures(many)
    of_many = [number for number, each in enumerate(signatures) if each in at]
    of_one = [at[signatures[number]] for number in of_many]
    many_rows, one_rows = np.array(of_many, np.int64), np.array(of_one, np.int64)
    sides = many.values[many_rows], one.values[one_rows]
    if swapped:
        sides = sides[1], sides[0]
    times = np.minimum(many.times[many_rows], one.times[one_rows])
    if operator in ARITHMETIC:
        values = ARITHMETIC[operator](*sides)
        kept = np.ones(len(of_many), np.bool_)
    else:
        holds = COMPARISONS[operator](*sides)
        values = holds.astype(np.float64) if matching.as_bool else sides[0]
        kept = np.ones(len(of_many), np.bool_) if matching.as_bool else holds
    rows = np.flatnonzero(kept).tolist()
    _check_unique(rows, [signatures[number] for number in of_many], matching)
    drop_name = operator in ARITHMETIC or matching.as_bool
    labels = [
        _result_labels(many.labels[of_many[row]], one.labels[of_one[row]], matching, drop_name=drop_name)
        for row in rows
    ]
    if matching.cardinality != "one-to-one" and len(set(labels)) < len(labels):
        raise QueryError("multiple matches for labels: grouping labels must ensure unique matches")
    return Vector(labels, values[kept], times[kept])


def _check_unique(rows: Sequence[int], signatures: Sequence[LabelSet], matching: Matching) -> None:
    if matching.cardinality == "one-to-one" and len({signatures[row] for row in rows}) < len(rows):
        raise QueryError(
            "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
        )


def _result_labels(many: LabelSet, one: LabelSet, matching: Matching, *, drop_name: bool) -> LabelSet:
    found = many.nameless if drop_name else many
    if matching.cardinality == "one-to-one":
        if matching.on:
            found = found.only(matching.labels)
        elif matching.labels:
            found = found.changed(dict.fromkeys(matching.labels, ""))
    if matching.include:
        found = found.changed({name: one.labels.get(name, "") for name in matching.include})
    return found
