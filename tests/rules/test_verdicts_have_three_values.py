"""Comparisons of all objects at once: ten operators, no data, several series, clearing, required matches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pilothouse.api.openstorage.v1alpha1 import Expression
from pilothouse.rules.verdicts import (
    MET,
    NOT_MET,
    UNKNOWN,
    Series,
    ThresholdComparison,
    combined,
    compared,
)


def series(*samples: tuple[int, float]) -> Series:
    return Series(
        np.array([number for number, _ in samples], dtype=np.int32),
        np.array([value for _, value in samples], dtype=np.float64),
    )


def verdicts(
    operator: str,
    values: tuple[float, ...],
    *samples: float,
    clear_at: float | None = None,
    held: bool = False,
) -> list[int]:
    """Of one object per sample."""
    found = compared(
        ThresholdComparison(operator, values, clear_at),
        series(*enumerate(samples)),
        np.full(len(samples), held, dtype=np.bool_),
    )
    return list(found)


@pytest.mark.parametrize(
    ("operator", "values", "samples", "expected"),
    [
        ("Gt", (50,), (49.9, 50, 50.1), [NOT_MET, NOT_MET, MET]),
        ("GtEq", (50,), (49.9, 50, 50.1), [NOT_MET, MET, MET]),
        ("Lt", (50,), (49.9, 50, 50.1), [MET, NOT_MET, NOT_MET]),
        ("LtEq", (50,), (49.9, 50, 50.1), [MET, MET, NOT_MET]),
        ("InRange", (-20, 20), (-20.1, -20, 0, 20, 20.1), [NOT_MET, MET, MET, MET, NOT_MET]),
        ("NotInRange", (-20, 20), (-20.1, -20, 0, 20, 20.1), [MET, NOT_MET, NOT_MET, NOT_MET, MET]),
        ("In", (1, 3), (1, 2, 3), [MET, NOT_MET, MET]),
        ("NotIn", (1, 3), (1, 2, 3), [NOT_MET, MET, NOT_MET]),
        ("Exists", (), (0, 7), [MET, MET]),
        ("DoesNotExist", (), (0, 7), [NOT_MET, NOT_MET]),
    ],
)
def test_each_operator(
    operator: str, values: tuple[float, ...], samples: tuple[float, ...], expected: list[int]
) -> None:
    assert verdicts(operator, values, *samples) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("Gt", (1,)),
        ("Lt", (1,)),
        ("NotInRange", (0, 1)),
        ("NotIn", (1,)),
        ("Exists", ()),
        ("DoesNotExist", ()),
    ],
)
def test_what_is_not_a_finite_number_is_unknown(
    operator: str, values: tuple[float, ...], value: float
) -> None:
    assert verdicts(operator, values, value) == [UNKNOWN]


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [("Lt", (1,), UNKNOWN), ("NotIn", (1,), UNKNOWN), ("Exists", (), NOT_MET), ("DoesNotExist", (), MET)],
)
def test_an_object_without_a_sample_is_unknown_unless_that_is_the_question(
    operator: str, values: tuple[float, ...], expected: int
) -> None:
    found = compared(ThresholdComparison(operator, values), series((1, 0.0)), np.zeros(3, dtype=np.bool_))
    assert found[0] == found[2] == expected


def test_of_several_series_one_that_is_met_is_enough() -> None:
    above_50 = ThresholdComparison("Gt", (50,))
    found = compared(
        above_50,
        series((0, 10), (0, 60), (1, 10), (1, 20), (2, math.nan), (2, 60), (3, math.nan), (3, 10)),
        np.zeros(4, dtype=np.bool_),
    )
    assert list(found) == [MET, NOT_MET, MET, NOT_MET]


def test_once_met_it_stays_met_until_the_value_passes_clear_at() -> None:
    assert verdicts("Gt", (50,), 60, 45, 40, 39, clear_at=40) == [MET, NOT_MET, NOT_MET, NOT_MET]
    assert verdicts("Gt", (50,), 60, 45, 40, 39, clear_at=40, held=True) == [MET, MET, NOT_MET, NOT_MET]
    assert verdicts("LtEq", (10,), 15, 20, 21, clear_at=20, held=True) == [MET, MET, NOT_MET]
    assert verdicts("Gt", (50,), math.nan, clear_at=40, held=True) == [UNKNOWN]


def test_all_must_match_unless_fewer_are_required() -> None:
    one = np.array([MET, MET, MET, NOT_MET, UNKNOWN, NOT_MET], dtype=np.int8)
    other = np.array([MET, NOT_MET, UNKNOWN, UNKNOWN, UNKNOWN, NOT_MET], dtype=np.int8)
    assert list(combined([one, other], 0)) == [MET, NOT_MET, UNKNOWN, NOT_MET, UNKNOWN, NOT_MET]
    assert list(combined([one, other], 1)) == [MET, MET, MET, UNKNOWN, UNKNOWN, NOT_MET]


def test_more_matches_than_there_are_expressions_are_never_met() -> None:
    assert list(combined([np.array([MET, UNKNOWN], dtype=np.int8)], 2)) == [NOT_MET, NOT_MET]


def test_an_expression_of_a_rule_is_compared_as_numbers() -> None:
    usage = Expression(key="x", operator="InRange", values=("-20", "20.5"), clear_at=None)
    assert ThresholdComparison.of(usage) == ThresholdComparison("InRange", (-20.0, 20.5))
    own = Expression(expression="is_greater(x)")
    assert ThresholdComparison.of(own) == ThresholdComparison("Gt", (0.0,))
    with pytest.raises(ValueError, match="could not convert"):
        ThresholdComparison.of(Expression(key="x", operator="Gt", values=("many",)))
