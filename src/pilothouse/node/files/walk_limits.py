"""Limits for walking a directory tree that another user can change.

    meter = Meter(WalkLimit(depth=4096, entries=500_000, seconds=60.0))
    meter.entry()                      # for each entry of a directory; raises WalkTooLong beyond the limit
    meter.level(12)                    # for each directory that is entered

A pod that moves directories during the walk can make even a small tree endless.
"""

from __future__ import annotations

import math
import time
from typing import Final

import msgspec

_ENTRIES_PER_LOOK: Final = 256


class WalkLimit(msgspec.Struct, frozen=True, kw_only=True):
    depth: int
    entries: int
    seconds: float = math.inf


class WalkTooLong(Exception):
    """A limit is reached. ``timed_out``: the walk was slow, perhaps as the machine is busy."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Meter:
    """Counts one walk, or several that share a limit."""

    def __init__(self, limit: WalkLimit) -> None:
        self._limit = limit
        self._seen = 0
        self._end = time.monotonic() + limit.seconds

    def entry(self) -> None:
        """Count an entry. Raises WalkTooLong."""
        self._seen += 1
        if self._seen > self._limit.entries:
            raise WalkTooLong(f"more than {self._limit.entries} files and folders")
        if self._seen % _ENTRIES_PER_LOOK == 0 and time.monotonic() > self._end:
            raise WalkTooLong(f"not counted within {self._limit.seconds:g} s", timed_out=True)

    def level(self, depth: int) -> None:
        """Check the depth of a directory. Raises WalkTooLong."""
        if depth > self._limit.depth:
            raise WalkTooLong(f"folders more than {self._limit.depth} levels deep")
