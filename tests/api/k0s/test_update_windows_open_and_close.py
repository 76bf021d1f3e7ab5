"""A window is open from its start for its length, on its days, in its time zone, also past midnight."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.api.k0s.update_windows import DAYS, UpdateWindow

TUESDAY = UpdateWindow.parse({"days": ["Tuesday"], "startTime": "13:00", "length": "2h"})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-11-17T12:59:59", False),
        ("2026-11-17T13:00:01", True),
        ("2026-11-17T14:59:59", True),
        ("2026-11-17T15:00:00", False),
        ("2026-11-18T13:30:00", False),
    ],
)
def test_k0s_A42_a_window_on_tuesdays(now: str, is_open: bool) -> None:
    assert (TUESDAY.open_until(at(now)) is not None) is is_open


def test_k0s_A43_a_window_stays_open_past_midnight() -> None:
    window = UpdateWindow.parse({"days": ["Tuesday"], "startTime": "23:00", "length": "2h"})
    assert window.open_until(at("2026-11-18T00:30:00")) == at("2026-11-18T01:00:00")
    assert window.open_until(at("2026-11-17T00:30:00")) is None


def test_a_window_of_several_days_is_open_on_all_of_them() -> None:
    window = UpdateWindow.parse({"days": ["Saturday"], "startTime": "00:00", "length": "48h"})
    assert window.open_until(at("2026-11-22T23:59:59")) == at("2026-11-23T00:00:00")
    assert window.open_until(at("2026-11-23T00:00:00")) is None


def test_windows_that_overlap_close_with_the_last() -> None:
    window = UpdateWindow.parse({"startTime": "12:00", "length": "25h"})
    assert window.open_until(at("2026-11-18T12:30:00")) == at("2026-11-19T13:00:00")


def test_days_are_those_of_the_time_zone() -> None:
    window = UpdateWindow.parse(
        {"days": ["Tuesday"], "startTime": "01:00", "length": "1h", "timeZone": "Asia/Tokyo"}
    )
    assert window.open_until(at("2026-11-16T16:30:00")) == at("2026-11-16T17:00:00")
    assert window.open_until(at("2026-11-17T16:30:00")) is None


def test_two_hours_are_two_hours_when_clocks_are_set_back() -> None:
    window = UpdateWindow.parse(
        {"days": ["Sunday"], "startTime": "01:30", "length": "2h", "timeZone": "Europe/Vienna"}
    )
    opens = datetime(2026, 10, 25, 1, 30, tzinfo=ZoneInfo("Europe/Vienna")).astimezone(UTC)
    assert window.open_until(opens) == opens + timedelta(hours=2)


@settings(deadline=None)
@given(
    days=st.sets(st.sampled_from(DAYS)),
    minute=st.integers(0, 24 * 60 - 1),
    length=st.integers(1, 7 * 24 * 60),
    now=st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)),
    zone=st.sampled_from(["UTC", "Europe/Vienna", "America/St_Johns", "Pacific/Kiritimati"]),
)
def test_it_opens_when_it_says(days: set[str], minute: int, length: int, now: datetime, zone: str) -> None:
    start = f"{minute // 60:02}:{minute % 60:02}"
    window = UpdateWindow.parse(
        {"days": sorted(days), "startTime": start, "length": f"{length}m", "timeZone": zone}
    )
    opens = window.next_opening(now)
    assert now < opens <= now + timedelta(days=8)
    assert window.open_until(opens) is not None
    if (closes := window.open_until(now)) is not None:
        assert now < closes <= now + timedelta(minutes=length)
        assert window.open_until(closes - timedelta(microseconds=1)) is not None
