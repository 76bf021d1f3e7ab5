"""Crontab schedules, in UTC.

problem_with("0 3 * * MON-FRI")    # ""
problem_with("61 * * * *")         # "61 is not a minute: expected 0 to 59"
next_time("0 3 * * *", now)        # tomorrow at three, or today
next_time("@every 90m", now)       # in one and a half hours
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

from pilothouse.base.duration import DurationError, parse_duration

_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_SHORTEST: Final = 1.0
_LONGEST: Final = 366 * 24 * 3600.0
"""Seconds between two times of ``@every``."""
_FURTHEST: Final = 366 * 8
"""Days: between two 29ths of February there may be eight years."""
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class _Field(NamedTuple):
    noun: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int | None:
        if text.upper() in self.names:
            return self.low + self.names.index(text.upper())
        if text.isascii() and text.isdigit() and len(text) <= 3 and self.low <= int(text) <= self.high:
            return int(text)
        return None


_SECOND: Final = _Field("second", 0, 59)
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)


def problem_with(text: str) -> str:
    """What is wrong with a schedule, or empty. A sixth field, in front, counts seconds."""
    if text.startswith(_EVERY):
        return _problem_with_interval(text.removeprefix(_EVERY).strip())
    if text.startswith("@"):
        return "" if text in _DESCRIPTORS else f"expected one of {', '.join(_DESCRIPTORS)} or @every DURATION"
    parts = text.split()
    if len(parts) not in (5, 6):
        return (
            "expected 5 fields (minute, hour, day, month, weekday) or 6 with seconds in front, "
            f"got {len(parts)}"
        )
    fields = _FIELDS if len(parts) == 5 else (_SECOND, *_FIELDS)
    for field, part in zip(fields, parts, strict=True):
        for item in part.split(","):
            if problem := _problem_with_item(field, item):
                return problem
    return ""


def next_time(text: str, after: datetime) -> datetime | None:
    """When a valid schedule is due next, later than a time; None if never, as on 30 February."""
    if text.startswith(_EVERY):
        # Whole seconds, as all schedules have.
        interval = timedelta(seconds=int(parse_duration(text.removeprefix(_EVERY).strip())))
        return after.astimezone(UTC).replace(microsecond=0) + interval
    parts = _DESCRIPTORS.get(text, text).split()
    if len(parts) == 5:
        parts = ["0", *parts]
    fields = (_SECOND, *_FIELDS)
    seconds, minutes, hours, days, months, weekdays = map(_values, fields, parts)
    # As in crontab: if both kinds of day are restricted, either will do.
    either = not {"*", "?"} & {parts[3][0], parts[5][0]}
    start = after.astimezone(UTC)
    floor = (start.hour, start.minute, start.second)
    for number in range(_FURTHEST):
        day = start.date() + timedelta(days=number)
        of_month, of_week = day.day in days, _weekday(day) in weekdays
        if day.month not in months or not (of_month or of_week if either else of_month and of_week):
            continue
        if found := _first(hours, minutes, seconds, floor if number == 0 else (-1, -1, -1)):
            return datetime.combine(day, time(*found, tzinfo=UTC))
    return None


def _problem_with_interval(text: str) -> str:
    try:
        seconds = parse_duration(text)
    except DurationError as problem:
        return str(problem)
    if not _SHORTEST <= seconds <= _LONGEST:
        return f"@every {text} is out of range: expected 1s to 8784h"
    return ""


def _first(
    hours: frozenset[int], minutes: frozenset[int], seconds: frozenset[int], floor: tuple[int, int, int]
) -> tuple[int, int, int] | None:
    """The first time of a day that is later than another."""
    for hour in sorted(each for each in hours if each >= floor[0]):
        for minute in sorted(each for each in minutes if (hour, each) >= floor[:2]):
            for second in sorted(seconds):
                if (hour, minute, second) > floor:
                    return hour, minute, second
    return None


def _weekday(day: date) -> int:
    """Sunday is 0."""
    return day.isoweekday() % 7


def _values(field: _Field, text: str) -> frozenset[int]:
    """The numbers that a part of a valid schedule stands for."""
    found: set[int] = set()
    for item in text.split(","):
        span, slash, step = item.partition("/")
        first, dash, last = span.partition("-")
        low, high = (
            (field.low, field.high) if span in ("*", "?") else (field.number(first), field.number(last))
        )
        if low is None:
            raise ValueError(f"{text!r} is not a {field.noun}")
        if not dash and span not in ("*", "?"):
            high = field.high if slash else low
        found |= set(range(low, (high if high is not None else low) + 1, int(step) if slash else 1))
    # Sunday is 0 and 7.
    return frozenset(number % 7 for number in found) if field is _FIELDS[4] else frozenset(found)


def _number(field: _Field, text: str) -> int:
    number = field.number(text)
    if number is None:
        raise ValueError(f"{text!r} is not a {field.noun}")
    return number


def _problem_with_item(field: _Field, item: str) -> str:
    """One of ``*``, ``7``, ``1-5``, each optionally with a step: ``*/10``."""
    span, slash, step = item.partition("/")
    if slash and not (step.isascii() and step.isdigit() and 0 < int(step[:4]) <= field.high + 1):
        return f"{step!r} is not a step for a {field.noun}"
    if span in ("*", "?"):
        return ""
    first, dash, last = span.partition("-")
    for bound in (first, last) if dash else (first,):
        if field.number(bound) is None:
            return f"{bound!r} is not a {field.noun}: expected {field.low} to {field.high}"
    start, end = field.number(first), field.number(last)
    if dash and start is not None and end is not None and start > end:
        return f"{span} runs backwards"
    return ""
