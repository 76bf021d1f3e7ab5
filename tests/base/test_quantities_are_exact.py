from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.base.quantity import (
    BINARY,
    DECIMAL,
    NANO,
    Quantity,
    QuantityError,
    canonical_quantity,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("12e6", "12e6"),
        ("1E3", "1e3"),
        ("1E", "1E"),
        ("1000000n", "1m"),
        ("-1.5", "-1500m"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("0.5Mi", "512Ki"),
        ("0.5Ki", "512"),
        (".5", "500m"),
        ("5.", "5"),
        ("+3", "3"),
        (2, "2"),
        (0.25, "250m"),
        ("0.0000000001", "1n"),
        ("1000E", "1000E"),
        ("0", "0"),
        ("-0", "0"),
    ],
)
def test_the_canonical_form_is_kubernetes_own(text: str | int | float, canonical: str) -> None:
    assert canonical_quantity(text) == canonical


@pytest.mark.parametrize(
    "text", ["", "1Q", "1 Gi", "Gi", "1.2.3", "1e", "--1", "1ki", "0x10", "١", "9" * 65, "1e999999999"]
)
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_quantity(text)


def test_a_boolean_is_no_quantity() -> None:
    with pytest.raises(QuantityError):
        parse_quantity(True)


def test_equal_amounts_are_equal_however_written() -> None:
    assert parse_quantity("1000m") == parse_quantity("1") == parse_quantity("1e0")
    assert hash(parse_quantity("1Ki")) == hash(parse_quantity("1024"))
    assert parse_quantity("1Gi") > parse_quantity("1G")


def test_sums_keep_the_family_of_the_first() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1024Mi")) == "2Gi"
    assert str(parse_quantity("0") + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1Gi") * 1.5) == "1536Mi"
    assert str(parse_quantity("2") - parse_quantity("500m")) == "1500m"


def test_whole_units_round_away_from_zero() -> None:
    assert parse_quantity("1500m").to_int() == 2
    assert parse_quantity("-1500m").to_int() == -2


@given(st.integers(-(10**30), 10**30), st.sampled_from([DECIMAL, "DecimalExponent"]))
def test_printing_and_reading_gives_the_same_amount(nanos: int, family: str) -> None:
    quantity = Quantity(nanos, family)
    assert parse_quantity(str(quantity)) == quantity


@given(st.integers(-(2**60), 2**60))
def test_whole_binary_amounts_survive_printing(units: int) -> None:
    quantity = Quantity(units * NANO, BINARY)
    assert parse_quantity(str(quantity)) == quantity


@given(st.text(max_size=20))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except QuantityError:
        return
    assert canonical_quantity(str(quantity)) == str(quantity)
