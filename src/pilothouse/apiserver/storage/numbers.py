"""Normalises numbers: ``3.0`` is stored as 3, since clients that expect an integer fail on ``3.0``."""

from __future__ import annotations

from math import isfinite

_EXACT = 2.0**53
"""Below this a float holds whole numbers exactly."""


def decimal(text: str) -> int | float:
    """The value of a number written with a point or an exponent. Raises ``ValueError``."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return int(number) if number.is_integer() and abs(number) < _EXACT else number
