"""Numbers of things, for people.

counted(1, "object")          # "1 object"
counted(2.5, "minute")        # "2.5 minutes"
"""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"
