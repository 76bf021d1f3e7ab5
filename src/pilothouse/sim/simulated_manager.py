"""A controller-manager in the bottle: a process that can crash, stand still, and be started again.

    manager = SimulatedManager("m1", server, controllers, loop, fortune, seed=7)
    manager.start()
    manager.crash()                  # as by kill -9
    manager.start()                  # another process, with a new identity and empty caches
    manager.pause()                  # as by SIGSTOP: not one step more, whatever comes due
    manager.resume()

Everything in it is real: client, caches, election, engines. It reaches the server through its own storm, and has a clock of
its own, which may be wrong.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from pilothouse.aio.task_group import together
from pilothouse.client.api import Api
from pilothouse.client.leader_election import LeaseTiming
from pilothouse.client.leader_lease import Leadership
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import Transport
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.leader_fence import LeaseElection
from pilothouse.runtime.manager import COMPONENT, Manager
from pilothouse.sim.fault_schedule import CALM, FaultProfile, FaultSource
from pilothouse.sim.faulty_transport import ConnectionFaults, Crashed, FaultyTransport
from pilothouse.sim.loop import LoopClock, SeededLoop, process_of
from pilothouse.sim.simulated_server import SimulatedServer

LEASE = ("kube-system", COMPONENT)

Through = Callable[[Transport], Transport]
"""Something put between a manager and its server, by whoever looks for trouble of his own."""


def _straight(transport: Transport) -> Transport:
    return transport


class SimulatedManager:
    """One manager, through as many lives as it takes."""

    def __init__(
        self,
        name: str,
        server: SimulatedServer,
        controllers: Sequence[Controller],
        loop: SeededLoop,
        fortune: FaultSource,
        *,
        seed: int,
        weather: FaultProfile = CALM,
        timing: LeaseTiming = LeaseTiming(),
        skew: float = 0.0,
        through: Through = _straight,
    ) -> None:
        self.name = name
        self.clock = LoopClock(loop)
        self.clock.skew = skew
        self._loop = loop
        self._server = server
        self._controllers = controllers
        self._timing = timing
        self._through = through
        self._rng = random.Random(f"{name} {seed}")
        self._task: asyncio.Task[None] | None = None
        self._link: FaultyTransport | None = None
        self.lives = 0
        self.manager: Manager | None = None
        self.leadership: Leadership | None = None
        self.storm = ConnectionFaults(name, fortune, random.Random(f"storm {name} {seed}"), weather, self)

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def identity(self) -> str:
        """Of this life: the name under which it writes, and stands for election."""
        return f"{self.name}-{self.lives}"

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
        self._link = FaultyTransport(self._through(self._server.transport(self.identity)), self.storm)
        self._task = self._loop.create_task(
            self._live(self._link), name=self.identity, context=process_of(self.name)
        )

    def crash(self) -> None:
        """It is gone, as by ``kill -9``: nothing is given up, nothing is finished."""
        if self._link is not None:
            self._link.dead = True
        if self._task is not None:
            self._task.cancel()
        self.resume()

    def pause(self) -> None:
        """Not one step more."""
        self._loop.freeze(self.name)

    def resume(self) -> None:
        """On from where it was; what came due meanwhile comes due now."""
        self._loop.thaw(self.name)

    async def ended(self) -> None:
        """Wait until nothing of it is left."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self, link: FaultyTransport) -> None:
        api = Api(link, self._rng, manager=COMPONENT)
        leadership = Leadership(api, *LEASE, self.identity, self.clock, self._rng, self._timing)
        manager = Manager(
            api,
            self._controllers,
            SharedInformers(api, self._rng, self.clock),
            LeaseElection(leadership),
            self.clock,
            identity=self.identity,
        )
        self.leadership, self.manager = leadership, manager
        with suppress(Crashed):
            await together({"election": leadership.run(), "manager": manager.run()})
