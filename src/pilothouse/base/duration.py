"""Durations as Go writes them (``1h30m``), and ages as kubectl prints them (``5d``, ``3m20s``).

parse_duration("1h30m")      # 5400.0
human_age(200)               # "3m20s"
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_UNITS: Final = {
    "ns": Decimal("0.000000001"),
    "us": Decimal("0.000001"),
    "µs": Decimal("0.000001"),
    "μs": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST: Final = 64
_LARGEST: Final = Decimal(2**63) / 10**9

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


class DurationError(ValueError):
    """The text is not a duration."""

    def __init__(self, text: object) -> None:
        super().__init__(
            f"{text!r} is not a duration: expected numbers with units, such as 90s, 1h30m or 250ms"
        )


def parse_duration(text: str) -> float:
    """Seconds, of a Go duration. A number needs a unit, except 0. Raises DurationError, a ValueError."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise DurationError(text)
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0.0
    total, end = Decimal(0), 0
    for part in _PART.finditer(unsigned):
        if part.start() != end:
            raise DurationError(text)
        total += Decimal(part[1]) * _UNITS[part[2]]
        end = part.end()
    if end == 0 or end != len(unsigned) or total >= _LARGEST:
        raise DurationError(text)
    return float(-total if text[0] == "-" else total)


def human_age(seconds: float) -> str:
    """An age as kubectl shows it: exact when young, coarse when old, never more than two units."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two_units(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two_units(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two_units(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two_units(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    count, rest = divmod(seconds, large)
    remainder = rest // small
    return f"{count}{large_unit}{remainder}{small_unit}" if remainder else f"{count}{large_unit}"
