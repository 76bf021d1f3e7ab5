"""The three values of a verdict on one object; ``verdicts`` computes them for all objects at once."""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """Whether conditions are met. No data is a value of its own: it is never met, and changes no state."""

    UNKNOWN = -1
    NOT_MET = 0
    MET = 1
