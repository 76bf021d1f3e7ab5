"""A simulated fleet: a server, managers, nodes, pilots, users and faults.

    fleet = SimulatedFleet(scenario, actions, faults, loop, seed=7, profile=FREQUENT_FAULTS)
    await fleet.run()                # raises InvariantViolated or NotConverged

In the first part of a run users act while managers crash, the server restarts, nodes are lost, and requests
fail. In the second there are no more faults, and within a bound everything must come to rest, in a state that
the scenario accepts. In the third nothing is written any more, except leases. All writes are checked.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Protocol

import msgspec

from pilothouse.apiserver.server.messages import User
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.leader_election import LeaseTiming
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.invariants import Invariant
from pilothouse.runtime.manager import Observer
from pilothouse.sim.fault_schedule import (
    CLOCK_JUMP,
    NO_FAULTS,
    Fault,
    FaultProfile,
    FaultSource,
    PlannedFault,
)
from pilothouse.sim.idle_pilot import IdlePilot
from pilothouse.sim.invariant_checker import InvariantChecker, LeaderHistory
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.simulated_manager import (
    LEASE,
    SimulatedManager,
    TransportWrapper,
    no_observers,
    unchanged,
)
from pilothouse.sim.simulated_node import NodeTiming, SimulatedNode
from pilothouse.sim.simulated_server import ADMIN, ObservedWrite, SimulatedServer

BOUND = 1800.0
"""Seconds in which everything must come to rest after the last fault."""
QUIET = 60.0
"""Seconds without a write that count as rest."""
RESTING = 180.0
"""Seconds in which nothing may be written afterwards."""


class NotConverged(AssertionError):
    """The fleet did not come to rest, or in a wrong state."""


class UserAction(msgspec.Struct, frozen=True):
    after: float
    """Seconds after the previous action."""
    what: str
    do: Callable[[Api], Awaitable[object]]
    user: User = ADMIN

    def __str__(self) -> str:
        return f"a user: {self.what}"


Settled = Callable[[Api], Awaitable[str]]
"""Returns what is wrong at rest, compared with what users asked for; empty if nothing is."""


class OutsideWorld(Protocol):
    """A model of what is outside the API: it runs along, and observers of the managers ask it."""

    async def run(self) -> None:
        """Until cancelled. May raise ``InvariantViolated``."""

    def observers(self, api: Api, informers: SharedInformers, clock: Clock) -> Mapping[str, Observer]:
        """The observers of a manager that has just started."""

    @property
    def controllers(self) -> Sequence[Controller]:
        """Controllers that measure it, beside those of the scenario."""


class Scenario(msgspec.Struct, frozen=True):
    """What users do, and what must hold during and after it."""

    name: str
    controllers: Sequence[Controller]
    users: Callable[[random.Random], Sequence[UserAction]]
    settled: Settled
    invariants: Sequence[Invariant] = ()
    managers: int = 2
    nodes: int = 2
    pilots: int = 0
    clock_jump: float = CLOCK_JUMP
    """How many seconds the clock of a manager is changed by at most, either way."""
    timing: NodeTiming = NodeTiming()
    """How long nodes take to start and stop pods, and how often starts fail."""
    wrap_transport: Callable[[], TransportWrapper] = lambda: unchanged
    """Wraps the transport of each manager, for instance to add a bug."""
    companion: Callable[[SimulatedServer, LoopClock, random.Random], Coroutine[None, None, None]] | None = (
        None
    )
    """A coroutine that runs along, such as a database and its pilots; it may raise ``InvariantViolated``."""
    outside: Callable[[SimulatedServer, LoopClock, random.Random], OutsideWorld] | None = None
    """Makes the model of what observers ask."""
    patience: float = QUIET
    """Seconds without a write after which it has to be settled: longer if timers of controllers are."""


class SimulatedFleet:
    def __init__(
        self,
        scenario: Scenario,
        actions: Sequence[UserAction],
        faults: FaultSource,
        loop: SeededLoop,
        *,
        seed: int,
        profile: FaultProfile = NO_FAULTS,
    ) -> None:
        rng = random.Random(f"fleet {seed}")
        self._loop = loop
        self._actions = actions
        self._faults = faults
        self._scenario = scenario
        self._seed = seed
        self._leaders = LeaderHistory(*LEASE)
        self.clock = LoopClock(loop)
        self.server = SimulatedServer(self.clock, seed=seed, heard=self._heard)
        self.api = self.server.api("user")
        """The client of users, without faults."""
        self.checker = InvariantChecker(
            self.server.store, scenario.invariants, leaders=self._leaders, now=loop.time
        )
        self.timeline: list[str] = []
        """Faults and user actions, with their times."""
        wrap_transport = scenario.wrap_transport()
        self._outside = (
            scenario.outside(self.server, self.clock, random.Random(f"outside {seed}"))
            if scenario.outside is not None
            else None
        )
        self.managers = {
            name: SimulatedManager(
                name,
                self.server,
                (*scenario.controllers, *(self._outside.controllers if self._outside is not None else ())),
                loop,
                faults,
                seed=seed,
                profile=profile,
                timing=LeaseTiming(),
                skew=rng.uniform(-profile.skew, profile.skew),
                wrap_transport=wrap_transport,
                observers=self._outside.observers if self._outside is not None else no_observers,
            )
            for name in manager_names(scenario)
        }
        self.nodes = {name: self._node(name, seed) for name in node_names(scenario)}
        self.pilots = [
            IdlePilot(self.server.api(f"p{n}"), f"p{n}", self.clock) for n in range(scenario.pilots)
        ]
        self._plugged: dict[str, asyncio.Task[None]] = {}
        self._injecting: list[asyncio.Task[None]] = []
        self._is_dark = False
        """A power cut: nothing runs."""

    @property
    def now(self) -> float:
        return self._loop.time()

    async def run(self) -> None:
        """Faults, calm, rest. Raises ``InvariantViolated`` or ``NotConverged``."""
        await self.server.start()
        checker = asyncio.ensure_future(self.checker.run())
        acting = asyncio.ensure_future(self._run_actions())
        pilots = [asyncio.ensure_future(pilot.run()) for pilot in self.pilots]
        judges = [checker, *self._companion()]
        for name in self.nodes:
            self._plug(name)
        for manager in self.managers.values():
            manager.start()
        try:
            await asyncio.wait((*judges, acting), return_when=asyncio.FIRST_COMPLETED)
            for judge in judges:
                if judge.done():
                    await judge
            await acting
        finally:
            await self._end(acting, *judges, *pilots)

    async def _run_actions(self) -> None:
        injecting = asyncio.ensure_future(self._inject_process_faults())
        try:
            for action in self._actions:
                await asyncio.sleep(action.after)
                await self._do(action)
        finally:
            injecting.cancel()
            await asyncio.gather(injecting, return_exceptions=True)
        await self._clear_up()
        await self._come_to_rest()
        before = self.checker.writes
        await asyncio.sleep(RESTING)
        if self.checker.writes != before:
            count, last = self.checker.writes - before, self.checker.last
            raise NotConverged(f"{count} writes while nothing changed; the last was {last}")

    async def _do(self, action: UserAction) -> None:
        """Retries while the server is down; goes on after a refusal."""
        while True:
            try:
                await action.do(
                    self.api if action.user == ADMIN else self.server.api("user", user=action.user)
                )
            except StatusError as refusal:
                self._say(f"{action} (refused: {refusal.message})")
            except TransportError:
                await asyncio.sleep(1)
                continue
            else:
                self._say(str(action))
            return

    async def _inject_process_faults(self) -> None:
        for planned in self._faults.process_faults():
            await asyncio.sleep(max(0.0, planned.number - self.now))
            self._revive()
            self._faults.record(planned)
            self._say(str(planned))
            task = asyncio.ensure_future(self._inject(planned))
            self._injecting.append(task)
        await asyncio.get_running_loop().create_future()

    async def _inject(self, planned: PlannedFault) -> None:
        match planned.fault:
            case Fault.RESTART:
                await self.server.stop()
                await asyncio.sleep(planned.seconds)
                if not self._is_dark:
                    await self.server.start()
            case Fault.BLACKOUT:
                await self._go_dark()
                await asyncio.sleep(planned.seconds)
                await self._light_up()
            case Fault.FORGET:
                await self.server.store.compact(self.server.revision)
            case Fault.UNPLUG:
                await self._unplug(planned.who)
                await asyncio.sleep(planned.seconds)
                self._plug(planned.who)
            case _:
                await self._inject_into_manager(self.managers[planned.who], planned)

    async def _inject_into_manager(self, manager: SimulatedManager, planned: PlannedFault) -> None:
        match planned.fault:
            case Fault.CRASH:
                manager.crash()
                await manager.ended()
                await asyncio.sleep(planned.seconds)
                self._revive()
            case Fault.PAUSE:
                manager.pause()
                await asyncio.sleep(planned.seconds)
                manager.resume()
            case Fault.PARTITION:
                manager.connection.disconnect()
                await asyncio.sleep(planned.seconds)
                manager.connection.reconnect()
            case Fault.CLOCK:
                manager.clock.skew += planned.seconds
            case other:
                raise ValueError(f"{other} does not strike a manager")

    async def _go_dark(self) -> None:
        self._is_dark = True
        for manager in self.managers.values():
            manager.crash()
            await manager.ended()
        for name in self.nodes:
            await self._unplug(name)
        await self.server.stop()

    async def _light_up(self) -> None:
        """End a power cut: the server starts first, and knows that no node runs."""
        if self._is_dark:
            self.checker.state.reset_readiness()
            await self.server.start(absent=self.nodes)
            self.checker.served_from = self.server.revision
            self._is_dark = False
            for name in self.nodes:
                self._plug(name)
            self._revive()

    def _revive(self) -> None:
        """Restart crashed managers, as an init system would."""
        if self._is_dark:
            return
        for manager in self.managers.values():
            if not manager.alive:
                manager.start()

    async def _clear_up(self) -> None:
        for task in self._injecting:
            task.cancel()
        await asyncio.gather(*self._injecting, return_exceptions=True)
        await self._light_up()
        await self.server.start()
        self._faults.calm()
        for manager in self.managers.values():
            manager.connection.calm()
            manager.resume()
        for name in self.nodes:
            self._plug(name)
        self._revive()

    async def _come_to_rest(self) -> None:
        end = self.now + BOUND
        writes, since = self.checker.writes, self.now
        while self.now < end:
            await asyncio.sleep(5)
            self._revive()
            if self.checker.writes != writes or not self._idle:
                writes, since = self.checker.writes, self.now
            elif self.now - since >= QUIET:
                problem = await self._scenario.settled(self.api)
                if not problem:
                    return
                if self.now - since >= self._scenario.patience:
                    raise NotConverged(f"it came to rest, but {problem}")
        problem = await self._scenario.settled(self.api)
        raise NotConverged(
            f"it did not come to rest within {BOUND:g}s; the last write was {self.checker.last}"
            + (f"; {problem}" if problem else "")
        )

    @property
    def _idle(self) -> bool:
        managers = self.managers.values()
        return all(manager.idle for manager in managers) and any(manager.leads for manager in managers)

    async def _end(self, *tasks: asyncio.Future[None]) -> None:
        for manager in self.managers.values():
            manager.crash()
        everything = [*tasks, *self._plugged.values(), *self._injecting]
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)
        for manager in self.managers.values():
            await manager.ended()
        await self.server.stop()

    def _companion(self) -> list[asyncio.Future[None]]:
        companion = self._scenario.companion
        running: list[asyncio.Future[None]] = []
        if self._outside is not None:
            running.append(asyncio.ensure_future(self._outside.run()))
        if companion is not None:
            rng = random.Random(f"beside {self._seed}")
            running.append(asyncio.ensure_future(companion(self.server, self.clock, rng)))
        return running

    def _node(self, name: str, seed: int) -> SimulatedNode:
        rng = random.Random(f"{name} {seed}")
        subnet = f"127.8.{int(name[1:]) + 1}"
        return SimulatedNode(
            self.server.api(name), name, self.clock, rng, self._scenario.timing, subnet=subnet
        )

    def _plug(self, name: str) -> None:
        if self._is_dark:
            return
        present = self._plugged.get(name)
        if present is None or present.done():
            self._plugged[name] = self._loop.create_task(self.nodes[name].run(), name=name)

    async def _unplug(self, name: str) -> None:
        task = self._plugged[name]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _heard(self, written: ObservedWrite) -> None:
        if written.agent.partition("-")[0] in self.managers and not written.path.startswith(_LEASES):
            self._leaders.wrote(written)

    def _say(self, what: str) -> None:
        self.timeline.append(f"{self.now:.0f}s {what}")


_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def manager_names(scenario: Scenario) -> list[str]:
    return [f"m{number}" for number in range(scenario.managers)]


def node_names(scenario: Scenario) -> list[str]:
    return [f"n{number}" for number in range(scenario.nodes)]
