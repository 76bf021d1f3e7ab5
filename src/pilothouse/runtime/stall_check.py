"""Whether a process that leads also decides.

    progress = StallCheck(manager.engines, leads=lambda: leadership.fence is not None, clock=clock)
    progress.problem          # "scheduling has decided nothing for 312 s, and 4 objects wait"

It is looked at from outside, now and then: between two looks a controller must have got on, or have had nothing to do. So nothing
runs for it, and nothing that hangs can keep it from saying so, the event loop excepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pilothouse.base.clock import Clock
from pilothouse.runtime.engine import Engine

STALLED_SECONDS: Final = 300.0
"""So long a controller may be at one decision: what it does for it has deadlines, which are far shorter."""


class StallCheck:
    """What was seen of each controller at the last look."""

    def __init__(self, engines: Sequence[Engine], leads: Callable[[], bool], clock: Clock) -> None:
        self._engines = engines
        self._leads = leads
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}
        """By controller: what it had taken, and since when it has been at that."""

    @property
    def problem(self) -> str:
        """Which controllers do not get on; empty if all do, or another process leads."""
        if not self._leads():
            self._seen.clear()
            return ""
        now = self._clock.monotonic()
        found = []
        for engine in self._engines:
            name = engine.controller.name
            taken, since = self._seen.get(name, (engine.taken, now))
            if taken != engine.taken or (engine.decides and engine.idle):
                since = now
            self._seen[name] = (engine.taken, since)
            if now - since >= STALLED_SECONDS:
                found.append(f"{name} has decided nothing for {now - since:.0f} s, and {_waiting(engine)}")
        return "; ".join(found)


def _waiting(engine: Engine) -> str:
    if not engine.decides:
        return "was not started though this process leads"
    parked = sum(map(len, engine.parked.values()))
    return f"{max(1, len(engine.queue) + parked)} objects wait"
