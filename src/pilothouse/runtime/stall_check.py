"""The stall check: whether the controllers of a leading process make progress.

    progress = StallCheck(manager.engines, leads=lambda: leadership.fence is not None, clock=clock)
    progress.problem          # "scheduling has decided nothing for 312 s, and 4 objects wait"

The health endpoint polls it: between two polls a controller must have reconciled something, or be idle. It
has no task of its own, which could hang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pilothouse.base.clock import Clock
from pilothouse.runtime.engine import Engine

STALLED_SECONDS: Final = 300.0
"""How long one reconcile may take: the deadlines of its requests are far shorter."""


class StallCheck:
    def __init__(self, engines: Sequence[Engine], leads: Callable[[], bool], clock: Clock) -> None:
        self._engines = engines
        self._leads = leads
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}
        """By controller: how many keys it had handled, and since when that number stands."""

    @property
    def problem(self) -> str:
        """The controllers that make no progress; empty if all do, or another process leads."""
        if not self._leads():
            self._seen.clear()
            return ""
        now = self._clock.monotonic()
        found = []
        for engine in self._engines:
            name = engine.controller.name
            handled, since = self._seen.get(name, (engine.handled, now))
            if handled != engine.handled or (engine.decides and engine.idle):
                since = now
            self._seen[name] = (engine.handled, since)
            if now - since >= STALLED_SECONDS:
                found.append(f"{name} has decided nothing for {now - since:.0f} s, and {_waiting(engine)}")
        return "; ".join(found)


def _waiting(engine: Engine) -> str:
    if not engine.decides:
        return "has not started although this process leads"
    parked = sum(map(len, engine.parked.values()))
    return f"{max(1, len(engine.queue) + parked)} objects wait"
