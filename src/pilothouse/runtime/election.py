"""Elections: a process runs its controllers while it leads.

    election = LeaseElection(leadership)
    await election.hold(decide)             # runs ``decide`` in each term, until cancelled
    election.fence()                        # the fence for a write; raises LeadershipLost outside a term

``fence`` checks the clock each time: a process that was paused for longer than its lease notices before its
next write. Losing the lease stops the controllers, not the process, which may lead again.
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
"""How often to check whether an expired term was renewed after all."""


class LeadershipLost(Exception):
    """Another process leads, or may: no more writes."""


class Election(Protocol):
    """Decides when a process runs its controllers."""

    @property
    def since(self) -> float:
        """When the current term began, by the loop's clock: the previous leader has written nothing since."""

    def fence(self) -> LeadershipFence | None:
        """The fence for a write; None where nothing is fenced. Raises ``LeadershipLost``."""

    async def hold(self, decide: Callable[[], Awaitable[None]]) -> None:
        """Run ``decide`` in each term, until cancelled."""


class NoElection:
    """For a single process, which always leads."""

    since = -math.inf

    def fence(self) -> LeadershipFence | None:
        return None

    async def hold(self, decide: Callable[[], Awaitable[None]]) -> None:
        await decide()


class LeaseElection:
    """The holder of a Lease leads."""

    def __init__(self, leadership: Leadership) -> None:
        self.since = -math.inf
        self._leadership = leadership
        self._term: LeadershipFence | None = None
        self._changed = asyncio.Event()
        leadership.subscribe(self._gained, self._lost)

    def fence(self) -> LeadershipFence | None:
        fence = self._leadership.fence
        if fence is None:
            raise LeadershipLost("the lease has expired or has another holder")
        return fence

    async def hold(self, decide: Callable[[], Awaitable[None]]) -> None:
        while True:
            term = self._term
            if term is None:
                await self._change()
                continue
            try:
                if await unless(decide(), self._change()):
                    # Controllers never end by themselves.
                    raise RuntimeError("the controllers have ended")
            except LeadershipLost as problem:
                log.warning("controllers stop: %s", problem)
                # A renewal that is answered late may continue the same term, for which there is no callback.
                while self._term == term and self._leadership.fence is None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_SECONDS):
                            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _gained(self, fence: LeadershipFence) -> None:
        self._term = fence
        self.since = asyncio.get_running_loop().time()
        self._changed.set()

    def _lost(self) -> None:
        self._term = None
        self._changed.set()
