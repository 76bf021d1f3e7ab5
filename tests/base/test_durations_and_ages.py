from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.base.duration import DurationError, human_age, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        ("-250ms", -0.25),
        ("0", 0.0),
        ("100ns", 1e-7),
        ("2m3.5s", 123.5),
        ("10us", 1e-5),
        ("+5m", 300.0),
    ],
)
def test_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "5 m", "1d", "m", "1h-3m", "1h30", "-", ".s", "99999999999h"])
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(DurationError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(-(10**12), 10**12))
def test_milliseconds_are_read_exactly(millis: int) -> None:
    assert parse_duration(f"{millis}ms") == pytest.approx(millis / 1000, abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (6, "6s"),
        (119.9, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 60, "5h1m"),
        (9 * 3600 + 1800, "9h"),
        (2 * 86400, "2d"),
        (3 * 86400 + 5 * 3600, "3d5h"),
        (30 * 86400, "30d"),
        (2 * 365 * 86400, "2y"),
        (3 * 365 * 86400 + 4 * 86400, "3y4d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_as_kubectl_prints_them(seconds: float, age: str) -> None:
    assert human_age(seconds) == age
