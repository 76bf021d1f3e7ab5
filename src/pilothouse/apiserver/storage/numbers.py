"""Numbers as they are kept: ``3.0`` is the whole number 3.

JSON has one kind of number, clients have two. A client that reads ``3.0`` into an integer fails, and a schema
that wants an integer takes ``3.0`` for one; so what is whole is stored as such, whichever way it was written.
"""

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
