"""How far a walk through somebody else's files goes.

    meter = Meter(WalkLimit(depth=4096, entries=500_000, seconds=60.0))
    meter.entry()                      # at each entry of a directory; WalkTooLong beyond the limit
    meter.level(12)                    # at each directory that is entered

Whoever writes the files may go on while they are looked at: rename directories so that the walk meets them again and again,
or hang the ones that it has left below the one that it is in. Such a tree has no end, however small it is.
"""

from __future__ import annotations

import math
import time
from typing import Final

import msgspec

_ENTRIES_PER_LOOK: Final = 256


class WalkLimit(msgspec.Struct, frozen=True, kw_only=True):
    """Directories below one another, entries in all of them, and seconds."""

    depth: int
    entries: int
    seconds: float = math.inf


class WalkTooLong(Exception):
    """The limit is reached; the message says which. ``timed_out``: it was too slow, for which the machine may be the reason."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Meter:
    """Of one walk, or of several that have a limit of entries and time together."""

    def __init__(self, limit: WalkLimit) -> None:
        self._limit = limit
        self._seen = 0
        self._end = time.monotonic() + limit.seconds

    def entry(self) -> None:
        """One more. Raises WalkTooLong."""
        self._seen += 1
        if self._seen > self._limit.entries:
            raise WalkTooLong(f"more than {self._limit.entries} files and folders")
        if self._seen % _ENTRIES_PER_LOOK == 0 and time.monotonic() > self._end:
            raise WalkTooLong(f"not counted within {self._limit.seconds:g} s", timed_out=True)

    def level(self, depth: int) -> None:
        """So many directories below the first. Raises WalkTooLong."""
        if depth > self._limit.depth:
            raise WalkTooLong(f"folders more than {self._limit.depth} levels deep")
