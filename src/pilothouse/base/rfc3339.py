"""RFC 3339 times. In code a time is a float of seconds since 1970, UTC.

format_time(0)                              # "1970-01-01T00:00:00Z", as metadata.creationTimestamp
format_micro_time(0.25)                     # "1970-01-01T00:00:00.250000Z", as a Lease's renewTime
parse_time("2024-02-29T12:00:00+02:00")     # 1709200800.0
"""

from __future__ import annotations

import re
import time
from calendar import monthrange, timegm
from functools import lru_cache
from typing import Final

_GRAMMAR: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_LONGEST: Final = 64


class TimeError(ValueError):
    """The text is not an RFC 3339 time."""

    def __init__(self, text: object) -> None:
        super().__init__(f"{text!r} is not an RFC 3339 time: expected the form 2006-01-02T15:04:05Z")


def format_time(moment: float) -> str:
    """Whole seconds, as Kubernetes' ``Time``."""
    return _second(int(moment // 1))


@lru_cache(maxsize=64)
def _second(moment: int) -> str:
    """Cached: a busy server formats the same second thousands of times."""
    return _spelt(moment) + "Z"


def format_micro_time(moment: float) -> str:
    """Six digits of a second, as Kubernetes' ``MicroTime``."""
    seconds, micros = divmod(round(moment * 1_000_000), 1_000_000)
    return f"{_spelt(seconds)}.{micros:06d}Z"


def _spelt(moment: int) -> str:
    parts = time.gmtime(moment)
    # The C library leaves out the zeros of an early year, such as that of a time which was never set.
    return f"{parts.tm_year:04d}-{time.strftime('%m-%dT%H:%M:%S', parts)}"


def parse_time(text: str) -> float:
    """Seconds since 1970. Raises TimeError, a ValueError."""
    match = _GRAMMAR.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    if match is None:
        raise TimeError(text)
    year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        raise TimeError(text)
    if hour > 23 or minute > 59 or second > 59:
        raise TimeError(text)
    offset = 0
    if match[8]:
        offset_hours, offset_minutes = int(match[9]), int(match[10])
        if offset_hours > 23 or offset_minutes > 59:
            raise TimeError(text)
        offset = (offset_hours * 60 + offset_minutes) * (60 if match[8] == "+" else -60)
    seconds = timegm((year, month, day, hour, minute, second)) - offset
    return seconds + float(match[7]) if match[7] else float(seconds)
