"""A simulated controller-manager: a process that can crash, pause and be restarted.

    manager = SimulatedManager("m1", server, controllers, loop, faults, seed=7)
    manager.start()
    manager.crash()                  # as by kill -9
    manager.start()                  # another process, with a new identity and empty caches

Client, caches, election and engines are real. It has its own connection to the server, with faults, and its
own clock, which may be wrong.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from pilothouse.aio.task_group import together
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.leader_election import LeaseTiming
from pilothouse.client.leader_lease import Leadership
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import Transport
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.election import LeaseElection
from pilothouse.runtime.manager import COMPONENT, Manager, Observer
from pilothouse.sim.fault_schedule import NO_FAULTS, FaultProfile, FaultSource
from pilothouse.sim.faulty_transport import ConnectionFaults, Crashed, FaultyTransport
from pilothouse.sim.loop import LoopClock, SeededLoop, process_of
from pilothouse.sim.simulated_server import SimulatedServer

LEASE = ("kube-system", COMPONENT)

TransportWrapper = Callable[[Transport], Transport]
"""Wraps a manager's transport, for instance to add a bug."""


Observers = Callable[[Api, SharedInformers, Clock], Mapping[str, Observer]]
"""Makes the observers of a manager that has just started."""


def no_observers(api: Api, informers: SharedInformers, clock: Clock) -> Mapping[str, Observer]:
    return {}


def unchanged(transport: Transport) -> Transport:
    return transport


class SimulatedManager:
    """One manager, through all its restarts."""

    def __init__(
        self,
        name: str,
        server: SimulatedServer,
        controllers: Sequence[Controller],
        loop: SeededLoop,
        faults: FaultSource,
        *,
        seed: int,
        profile: FaultProfile = NO_FAULTS,
        timing: LeaseTiming = LeaseTiming(),
        skew: float = 0.0,
        wrap_transport: TransportWrapper = unchanged,
        observers: Observers = no_observers,
    ) -> None:
        self.name = name
        self.clock = LoopClock(loop)
        self.clock.skew = skew
        self._loop = loop
        self._server = server
        self._controllers = controllers
        self._timing = timing
        self._wrap_transport = wrap_transport
        self._observers = observers
        self._rng = random.Random(f"{name} {seed}")
        self._task: asyncio.Task[None] | None = None
        self._link: FaultyTransport | None = None
        self.lives = 0
        self.manager: Manager | None = None
        self.leadership: Leadership | None = None
        self.connection = ConnectionFaults(name, faults, random.Random(f"storm {name} {seed}"), profile, self)

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def identity(self) -> str:
        """The identity of this start, for writes and the election."""
        return f"{self.name}-{self.lives}"

    @property
    def idle(self) -> bool:
        """True if it runs and has nothing to do: another manager leads, or everything is reconciled."""
        if not self.alive or self.leadership is None or self.manager is None:
            return False
        return self.leadership.fence is None or self.manager.idle

    @property
    def leads(self) -> bool:
        return self.alive and self.leadership is not None and self.leadership.fence is not None

    def start(self) -> None:
        """Start it, as another process than before."""
        self.lives += 1
        transport = self._wrap_transport(self._server.transport(self.identity))
        self._link = FaultyTransport(transport, self.connection)
        self._task = self._loop.create_task(
            self._live(self._link), name=self.identity, context=process_of(self.name)
        )

    def crash(self) -> None:
        """Kill it, as by ``kill -9``: without clean-up, without releasing the lease."""
        if self._link is not None:
            self._link.dead = True
        if self._task is not None:
            self._task.cancel()
        self.resume()

    def pause(self) -> None:
        """Stop it, as by SIGSTOP."""
        self._loop.freeze(self.name)

    def resume(self) -> None:
        """Continue; what was due meanwhile is due now."""
        self._loop.thaw(self.name)

    async def ended(self) -> None:
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self, link: FaultyTransport) -> None:
        api = Api(link, self._rng, manager=COMPONENT)
        leadership = Leadership(api, *LEASE, self.identity, self.clock, self._rng, self._timing)
        informers = SharedInformers(api, self._rng, self.clock)
        manager = Manager(
            api,
            self._controllers,
            informers,
            LeaseElection(leadership),
            self.clock,
            identity=self.identity,
            observers=self._observers(api, informers, self.clock),
        )
        self.leadership, self.manager = leadership, manager
        with suppress(Crashed):
            await together({"election": leadership.run(), "manager": manager.run()})
