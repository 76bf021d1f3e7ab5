"""Values of up to an hour ago, to see how fast they change. Nothing is computed until it is asked for.

past = PastSamples()
past.note(joined, table.position, now)          # at each poll: keeps four, a quarter of an hour apart
past.of(0, claim.uid)                           # the oldest sample of the first expression
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from pilothouse.rules.join import Joined
from pilothouse.rules.readings import PastValue

_APART: Final = 900.0
"""Seconds between the polls that are kept."""
_KEPT: Final = 4


class _KeptPoll(NamedTuple):
    moment: float
    joined: tuple[Joined, ...]
    position: Mapping[str, int]


class PastSamples:
    """The answers of a few polls within the last hour."""

    def __init__(self) -> None:
        self._polls: list[_KeptPoll] = []

    def note(self, joined: Sequence[Joined], position: Mapping[str, int], now: float) -> None:
        """``position`` is that of each claim in the answers, by its uid."""
        if not self._polls or now - self._polls[-1].moment >= _APART:
            self._polls = [*self._polls[1 - _KEPT :], _KeptPoll(now, tuple(joined), position)]

    def of(self, expression: int, uid: str) -> PastValue | None:
        """None if the object has no sample, or several."""
        for poll in self._polls:
            if (position := poll.position.get(uid)) is None:
                continue
            joined = poll.joined[expression]
            mine = np.flatnonzero(joined.object_of == position)
            if len(mine) == 1:
                return PastValue(float(joined.values[mine[0]]), float(joined.times[mine[0]]))
        return None
