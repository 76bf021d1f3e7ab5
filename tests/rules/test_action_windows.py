"""When a rule's windows are open, and when they open next."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest

from pilothouse.api.openstorage.action_windows import seconds_until_open
from pilothouse.api.openstorage.v1alpha1 import ActionWindow

NEW_YORK = ZoneInfo("America/New_York")
NIGHTS = msgspec.convert(
    {
        "timezone": "America/New_York",
        "windows": [
            {"daysOfWeek": ["Mon", "Tue", "Wed", "Thu", "Fri"], "startTime": "02:00", "endTime": "04:00"},
            {"daysOfWeek": ["Saturday", "Sunday"], "startTime": "12:00AM", "endTime": "6:00AM"},
        ],
    },
    ActionWindow,
)


def at(day: int, hour: int, minute: int = 0, month: int = 11) -> float:
    return datetime(2026, month, day, hour, minute, tzinfo=NEW_YORK).timestamp()


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (at(18, 5), 21 * 3600.0),  # Wednesday at 5: opens on Thursday at 2
        (at(19, 1, 59), 60.0),
        (at(19, 2), None),
        (at(19, 3, 59), None),
        (at(19, 4), 22 * 3600.0),
        (at(20, 4), 20 * 3600.0),  # Friday: opens on Saturday at midnight
        (at(21, 0), None),
        (at(21, 5, 59), None),
        (at(22, 6), 20 * 3600.0),
    ],
)
def test_nights_in_new_york(moment: float, expected: float | None) -> None:
    """px-D9."""
    assert seconds_until_open(NIGHTS, moment) == expected


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    friday = msgspec.convert(
        {"timezone": "America/New_York",
         "windows": [{"daysOfWeek": ["Fri"], "startTime": "10:30PM", "endTime": "01:00"}]},
        ActionWindow,
    )  # fmt: skip
    assert seconds_until_open(friday, at(20, 22, 30)) is None
    assert seconds_until_open(friday, at(21, 0, 59)) is None
    assert seconds_until_open(friday, at(21, 1)) == 6 * 86400 + 21.5 * 3600
    assert seconds_until_open(friday, at(20, 0, 30)) == 22 * 3600.0


def test_a_window_is_found_where_clocks_are_set_back() -> None:
    """On 1 November at 2 it is 1 again: from midnight to 6 are seven hours."""
    assert seconds_until_open(NIGHTS, at(31, 23, month=10)) == 3600.0
    assert seconds_until_open(NIGHTS, at(1, 5, 59)) is None


def test_without_windows_or_with_disabled_ones_it_is_always_open() -> None:
    assert seconds_until_open(None, at(18, 5)) is None
    disabled = msgspec.structs.replace(NIGHTS, enabled=False)
    assert seconds_until_open(disabled, at(18, 5)) is None
