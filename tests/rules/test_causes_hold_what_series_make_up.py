"""Labels of series are a pod's or a provider's words: a cause holds a bounded line of each."""

from __future__ import annotations

import numpy as np
import pytest

from pilothouse.api.openstorage.v1alpha1 import Cause, Expression
from pilothouse.rules.causes import ComparedExpression
from pilothouse.rules.join import Joined
from pilothouse.rules.reading_text import series_text
from pilothouse.rules.verdicts import ThresholdComparison


def cause(**labels: str) -> Cause:
    """That of a value above its threshold, of a series with these labels."""
    expression = Expression(key="lag", operator="Gt", values=("5",))
    joined = Joined(
        np.zeros(1, np.int32),
        np.array([7.0]),
        np.array([10.0]),
        0,
        series=1,
        labels=(labels,),
        numbers=np.zeros(1, np.int64),
    )
    (found,) = ComparedExpression(expression, ThresholdComparison.of(expression), "volume", joined).of(
        0, "db/data"
    )
    return found


def test_a_slot_is_named() -> None:
    assert series_text([cause(slot_name="standby", pod="db-0")]) == "slot_name standby"


@pytest.mark.parametrize("value", ["standby\nAPPROVED: nothing to do", "standby\x1b[2K\rapproved"])
def test_a_value_is_one_line_of_text(value: str) -> None:
    text = series_text([cause(slot_name=value)])
    assert text.startswith("slot_name standby?")
    assert text.isprintable()


def test_names_and_values_are_bounded() -> None:
    """A cause that no record can hold would keep the action from being made, and what is decided after it."""
    found = cause(**{"a" * 10_000_000: "x", "b\nc": "x", "d": "y" * 10_000_000})
    assert list(found.series) == ["d"]
    assert len(found.series["d"]) == 253
