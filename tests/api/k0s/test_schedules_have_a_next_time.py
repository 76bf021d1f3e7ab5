"""When a crontab schedule is due next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilothouse.api.k0s.cron import next_time, problem_with

START = datetime(2030, 1, 1, 12, 30, 15, tzinfo=UTC)  # a Tuesday


def text_of(schedule: str, after: datetime = START) -> str:
    assert problem_with(schedule) == ""
    found = next_time(schedule, after)
    return found.strftime("%Y-%m-%d %H:%M:%S %a") if found else "never"


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("* * * * *", "2030-01-01 12:31:00 Tue"),
        ("* * * * * *", "2030-01-01 12:30:16 Tue"),
        ("*/10 * * * * *", "2030-01-01 12:30:20 Tue"),
        ("30 * * * *", "2030-01-01 13:30:00 Tue"),
        ("0 3 * * *", "2030-01-02 03:00:00 Wed"),
        ("0 3 * * MON-FRI", "2030-01-02 03:00:00 Wed"),
        ("0 3 * * SAT", "2030-01-05 03:00:00 Sat"),
        ("0 3 * * 7", "2030-01-06 03:00:00 Sun"),
        ("0 3 * * 0", "2030-01-06 03:00:00 Sun"),
        ("0 3 * * 5-7", "2030-01-04 03:00:00 Fri"),
        ("0 3 31 * *", "2030-01-31 03:00:00 Thu"),
        ("0 3 31 4,5 *", "2030-05-31 03:00:00 Fri"),
        ("0 3 29 2 *", "2032-02-29 03:00:00 Sun"),
        ("0 3 30 2 *", "never"),
        ("0 0 13 * FRI", "2030-01-04 00:00:00 Fri"),
        ("0 0 13 * ?", "2030-01-13 00:00:00 Sun"),
        ("5/20 12 * * *", "2030-01-01 12:45:00 Tue"),
        ("@hourly", "2030-01-01 13:00:00 Tue"),
        ("@daily", "2030-01-02 00:00:00 Wed"),
        ("@midnight", "2030-01-02 00:00:00 Wed"),
        ("@weekly", "2030-01-06 00:00:00 Sun"),
        ("@monthly", "2030-02-01 00:00:00 Fri"),
        ("@yearly", "2031-01-01 00:00:00 Wed"),
        ("@annually", "2031-01-01 00:00:00 Wed"),
        ("@every 10s", "2030-01-01 12:30:25 Tue"),
        ("@every 1h30m", "2030-01-01 14:00:15 Tue"),
        ("@every 1500ms", "2030-01-01 12:30:16 Tue"),
    ],
)
def test_the_next_time(schedule: str, expected: str) -> None:
    assert text_of(schedule) == expected


def test_a_schedule_is_due_after_a_time_and_not_at_it() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert text_of("0 12 * * *", noon) == "2030-01-02 12:00:00 Wed"
    assert text_of("0 12 * * *", noon - timedelta(seconds=1)) == "2030-01-01 12:00:00 Tue"


def test_schedules_are_in_utc() -> None:
    berlin = START.astimezone(timezone(timedelta(hours=1)))
    assert text_of("0 13 * * *", berlin) == "2030-01-01 13:00:00 Tue"
