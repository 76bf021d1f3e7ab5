"""A controller-manager in the bottle: a process that can crash, stand still, and be started again.

    manager = Process("m1", server, controllers, loop, seed=7, rates=Rates(crash_after=0.01))
    manager.start()
    manager.crash()
    manager.start()                  # another process, with a new identity and empty caches

Everything in it is real: client, caches, election, engines. It reaches the server through its own storm, and has a clock of
its own, which may be wrong.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from pilothouse.aio.together import together
from pilothouse.client.electing import Timing
from pilothouse.client.informers import Informers
from pilothouse.client.leases import Leadership
from pilothouse.client.rest import Api
from pilothouse.runtime.declaring import Controller
from pilothouse.runtime.leading import Elected
from pilothouse.runtime.managing import COMPONENT, Manager
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.server import Server
from pilothouse.sim.storms import Crashed, Rates, Storm, Stormy

LEASE = ("kube-system", COMPONENT)


class Process:
    """One manager, through as many lives as it takes."""

    def __init__(
        self,
        name: str,
        server: Server,
        controllers: Sequence[Controller],
        loop: SeededLoop,
        *,
        seed: int,
        rates: Rates = Rates(),
        timing: Timing = Timing(),
        skew: float = 0.0,
    ) -> None:
        self.name = name
        self.clock = LoopClock(loop)
        self.clock.skew = skew
        self._server = server
        self._controllers = controllers
        self._timing = timing
        self._rng = random.Random(f"{name} {seed}")
        self._task: asyncio.Task[None] | None = None
        self.lives = 0
        self.manager: Manager | None = None
        self.leadership: Leadership | None = None
        self.storm = Storm(random.Random(f"storm {name} {seed}"), rates, crash=self.crash)

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def idle(self) -> bool:
        """True if it is alive and has nothing to do: it stands by, or all is decided."""
        if not self.alive or self.leadership is None or self.manager is None:
            return False
        return self.leadership.fence is None or self.manager.idle

    @property
    def leads(self) -> bool:
        return self.alive and self.leadership is not None and self.leadership.fence is not None

    def start(self) -> None:
        """Another life."""
        self.lives += 1
        api = Api(Stormy(self._server.transport(self.name), self.storm), self._rng, manager=COMPONENT)
        identity = f"{self.name}-{self.lives}"
        self.leadership = Leadership(api, *LEASE, identity, self.clock, self._rng, self._timing)
        self.manager = Manager(
            api,
            self._controllers,
            Informers(api, self._rng, self.clock),
            Elected(self.leadership),
            self.clock,
            identity=identity,
        )
        parts = {"election": self.leadership.run(), "manager": self.manager.run()}
        self._task = asyncio.ensure_future(self._live(together(parts)))
        self._task.set_name(identity)

    def crash(self) -> None:
        """It is gone, as by ``kill -9``: nothing is given up, nothing is finished."""
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait until nothing of it is left."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self, parts: Awaitable[None]) -> None:
        with suppress(Crashed):
            await parts
