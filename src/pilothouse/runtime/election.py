"""Decisions while this process leads, and only then.

    office = LeaderFence(leadership)
    await office.hold(decide)             # runs ``decide`` in each term, until cancelled
    office.fence()                        # to act under; raises LeadershipLost outside a term

``fence`` asks the clock each time: a process that was paused for longer than its lease knows it before its next write, and
the server knows it too. Losing the lease stops decisions, not the process, which stands by and may lead again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Protocol

from pilothouse.aio.race import unless
from pilothouse.client.fence import LeadershipFence
from pilothouse.client.leader_lease import Leadership

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often to look whether a term that ran out goes on after all."""


class LeadershipLost(Exception):
    """Another leads, or may: nothing more may be done."""


class LeaderFence(Protocol):
    """A place from which decisions are taken, by one at a time."""

    @property
    def since(self) -> float:
        """When it was taken over, by the loop's clock: whoever held it before has written nothing since."""

    def fence(self) -> LeadershipFence | None:
        """What to act under; None where nothing is fenced. Raises ``LeadershipLost``."""

    async def hold(self, decide: Callable[[], Awaitable[None]]) -> None:
        """Run ``decide`` whenever the office is held, until cancelled."""


class NoElection:
    """The office of a process that has no rivals."""

    since = -math.inf

    def fence(self) -> LeadershipFence | None:
        return None

    async def hold(self, decide: Callable[[], Awaitable[None]]) -> None:
        await decide()


class LeaseElection:
    """The office of whoever holds a Lease."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._term: LeadershipFence | None = None
        self._since = -math.inf
        self._changed = asyncio.Event()
        leadership.subscribe(self._gained, self._lost)

    @property
    def since(self) -> float:
        return self._since

    def fence(self) -> LeadershipFence | None:
        fence = self._leadership.fence
        if fence is None:
            raise LeadershipLost("the lease has run out, or is another's")
        return fence

    async def hold(self, decide: Callable[[], Awaitable[None]]) -> None:
        while True:
            term = self._term
            if term is None:
                await self._change()
                continue
            try:
                if await unless(decide(), self._change()):
                    # Nothing that decides ends of itself.
                    raise RuntimeError("decisions came to an end")
            except LeadershipLost as problem:
                log.warning("decisions stop: %s", problem)
                # A renewal that is answered late may give the same term back, of which nobody is told.
                while self._term == term and self._leadership.fence is None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_SECONDS):
                            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _gained(self, fence: LeadershipFence) -> None:
        self._term = fence
        self._since = asyncio.get_running_loop().time()
        self._changed.set()

    def _lost(self) -> None:
        self._term = None
        self._changed.set()
