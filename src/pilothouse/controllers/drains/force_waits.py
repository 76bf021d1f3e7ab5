"""The wait of ``forceAfter``, before pods are deleted beyond their budgets: in parts, recorded on the Node.

    wait = ForceWait.read(turn.signal, node, since, seconds)
    if (following := wait.following(now)) is not None:
        yield PatchObject(node, {"metadata": {"annotations": following.annotations(turn.signal)}}, …)
    wait.is_over(now)

A part counts from the moment at which the one before was recorded, by the clock of the leader. So a clock
that jumps ahead, or another leader whose clock is ahead, ends one part too early, and not the whole wait. One
that is set back begins the part again.
"""

from __future__ import annotations

from typing import Final, Self

import msgspec

from pilothouse.api.k0s.signals import Signal
from pilothouse.api.objects import Object
from pilothouse.controllers.drains.cordons import force_wait, waits_for_force

_PARTS: Final = 4
_SHORTEST: Final = 5.0
"""Seconds that a part takes at least."""


class ForceWait(msgspec.Struct, frozen=True):
    """How many parts are over, since when, and how long each takes."""

    over: int
    since: float
    part: float
    parts: int

    @classmethod
    def read(cls, signal: Signal, node: Object, started: float, seconds: float) -> Self:
        """The wait of this turn, whose drain has started at this moment."""
        parts = max(1, min(_PARTS, int(seconds // _SHORTEST)))
        over, since = force_wait(signal, node) or (0, started)
        return cls(min(over, parts - 1), since, seconds / parts, parts)

    def following(self, now: float) -> Self | None:
        """What is to be recorded; None if nothing."""
        if now < self.since:
            return msgspec.structs.replace(self, since=now)
        if self.due <= now and self.over < self.parts - 1:
            return msgspec.structs.replace(self, over=self.over + 1, since=now)
        return None

    def is_over(self, now: float) -> bool:
        return self.over == self.parts - 1 and self.due <= now

    @property
    def due(self) -> float:
        """When this part is over."""
        return self.since + self.part

    def annotations(self, signal: Signal) -> dict[str, str]:
        return waits_for_force(signal, self.over, self.since)
