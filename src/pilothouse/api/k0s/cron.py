"""Validates crontab schedules.

problem_with("0 3 * * MON-FRI")    # ""
problem_with("61 * * * *")         # "61 is not a minute: expected 0 to 59"
"""

from __future__ import annotations

from typing import Final, NamedTuple

_DESCRIPTORS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
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
    if text.startswith("@"):
        return "" if text in _DESCRIPTORS else f"expected one of {', '.join(_DESCRIPTORS)}"
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
