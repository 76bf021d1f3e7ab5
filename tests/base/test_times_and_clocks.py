from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.base.clock import Clock, ManualClock, SystemClock
from pilothouse.base.rfc3339 import TimeError, format_micro_time, format_time, parse_time
from pilothouse.base.uids import Uids, new_uid


def test_times_are_rfc_3339() -> None:
    assert format_time(0) == "1970-01-01T00:00:00Z"
    assert format_micro_time(0.25) == "1970-01-01T00:00:00.250000Z"
    assert format_micro_time(1.9999999) == "1970-01-01T00:00:02.000000Z"
    assert parse_time("2024-02-29T12:00:00+02:00") == 1709200800.0
    assert parse_time("2024-02-29T10:00:00.5Z") == 1709200800.5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2017-10-01T19:00:00+00",
        "2023-02-29T00:00:00Z",
        "2024-01-01 00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-1-1T0:0:0Z",
    ],
)
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(TimeError, match="RFC 3339"):
        parse_time(text)


@given(st.integers(0, 4_000_000_000))
def test_whole_seconds_survive_printing(moment: int) -> None:
    assert parse_time(format_time(moment)) == moment


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(now=100)
    clock.advance(5)
    assert (clock.now(), clock.monotonic()) == (105, 5)
    clock.set(50)
    assert (clock.now(), clock.monotonic()) == (50, 5)
    with pytest.raises(ValueError, match="run back"):
        clock.advance(-1)


def test_the_system_clock_is_a_clock() -> None:
    clock: Clock = SystemClock()
    assert clock.now() > 1_600_000_000
    assert clock.monotonic() <= clock.monotonic()


@pytest.mark.parametrize("draw", [new_uid, Uids().new], ids=["one by one", "from a pool"])
def test_uids_are_random_version_4_uuids(draw: Callable[[], str]) -> None:
    uids = [draw() for _ in range(1000)]
    assert len(set(uids)) == 1000
    assert all(str(uuid.UUID(uid)) == uid and uuid.UUID(uid).version == 4 for uid in uids)
    assert all(uuid.UUID(uid).variant == uuid.RFC_4122 for uid in uids)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "0099-12-31T23:59:59Z", "0987-06-05T04:03:02Z"])
def test_early_years_keep_their_zeros(text: str) -> None:
    assert format_time(parse_time(text)) == text
    assert format_micro_time(parse_time(text)) == text.replace("Z", ".000000Z")
