"""A fleet in a bottle: a server, managers, nodes, pilots, and what befalls them.

    fleet = SimulatedFleet(scenario, actions, fortune, loop, seed=7, weather=STORMY)
    await fleet.run()                # raises Violated or NotConverged

A run has three parts. *Trouble*: users do what they do, while managers crash, stand still and are started again, the server
restarts, nodes are lost, and every request goes through a storm. *Calm*: nothing goes wrong any more, and within a bound
everything has to come to rest, in a state that the scenario accepts. *Rest*: nothing is written any more, leases aside. All
the while a witness sees every write and knows what must never be.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence

import msgspec

from pilothouse.apiserver.server.messages import User
from pilothouse.client.api import Api
from pilothouse.client.leader_election import LeaseTiming
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.invariants import Invariant
from pilothouse.sim.fault_schedule import CALM, Fault, FaultProfile, FaultSource, PlannedFault
from pilothouse.sim.idle_pilot import IdlePilot
from pilothouse.sim.invariant_checker import InvariantChecker, LeaderHistory
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.simulated_manager import LEASE, SimulatedManager, Through
from pilothouse.sim.simulated_node import NodeTiming, SimulatedNode
from pilothouse.sim.simulated_server import ADMIN, ObservedWrite, SimulatedServer

BOUND = 1800.0
"""Seconds within which everything has come to rest once nothing goes wrong any more."""
QUIET = 60.0
"""Seconds without a write that count as rest."""
RESTING = 180.0
"""Seconds that it is then watched."""


class NotConverged(AssertionError):
    """It did not come to rest, or not where it should."""


class UserAction(msgspec.Struct, frozen=True):
    """Something that a user does."""

    after: float
    """Seconds since the one before."""
    what: str
    do: Callable[[Api], Awaitable[object]]
    user: User = ADMIN
    """Whoever does it."""

    def __str__(self) -> str:
        return f"a user: {self.what}"


Settled = Callable[[Api], Awaitable[str]]
"""What is not as it should be once all is quiet; empty if all is. It goes by what was asked for, not by what was done."""


class Scenario(msgspec.Struct, frozen=True):
    """What users do, and what has to come of it."""

    name: str
    controllers: Sequence[Controller]
    users: Callable[[random.Random], Sequence[UserAction]]
    settled: Settled
    promises: Sequence[Invariant] = ()
    managers: int = 2
    nodes: int = 2
    pilots: int = 0
    habits: NodeTiming = NodeTiming()
    """How the nodes take their time, and how often what they start fails."""
    through: Callable[[], Through] | None = None
    """Something of the scenario's own between managers and server, such as a bug."""
    beside: Callable[[SimulatedServer, LoopClock, random.Random], Coroutine[None, None, None]] | None = None
    """Something of the scenario's own that runs along, such as a database and its pilots; it may raise ``Violated``."""


class SimulatedFleet:
    """Everything in the bottle."""

    def __init__(
        self,
        scenario: Scenario,
        actions: Sequence[UserAction],
        fortune: FaultSource,
        loop: SeededLoop,
        *,
        seed: int,
        weather: FaultProfile = CALM,
    ) -> None:
        rng = random.Random(f"fleet {seed}")
        self._loop = loop
        self._actions = actions
        self._fortune = fortune
        self._scenario = scenario
        self._seed = seed
        self._reign = LeaderHistory(*LEASE)
        self.clock = LoopClock(loop)
        self.server = SimulatedServer(self.clock, seed=seed, heard=self._heard)
        self.api = self.server.api("user")
        """What users write with: people have good connections."""
        self.witness = InvariantChecker(
            self.server.store, scenario.promises, reign=self._reign, now=loop.time
        )
        self.told: list[str] = []
        """What befell it, and what users did."""
        extra: dict[str, Through] = {} if scenario.through is None else {"through": scenario.through()}
        self.managers = {
            name: SimulatedManager(
                name,
                self.server,
                scenario.controllers,
                loop,
                fortune,
                seed=seed,
                weather=weather,
                timing=LeaseTiming(),
                skew=rng.uniform(-weather.skew, weather.skew),
                **extra,
            )
            for name in manager_names(scenario)
        }
        self.nodes = {name: self._node(name, seed) for name in node_names(scenario)}
        self.pilots = [
            IdlePilot(self.server.api(f"p{n}"), f"p{n}", self.clock) for n in range(scenario.pilots)
        ]
        self._plugged: dict[str, asyncio.Task[None]] = {}
        self._striking: list[asyncio.Task[None]] = []
        self._is_dark = False
        """Nothing has power."""

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._loop.time()

    async def run(self) -> None:
        """Trouble, calm, rest. Raises ``Violated`` or ``NotConverged``."""
        await self.server.start()
        witness = asyncio.ensure_future(self.witness.run())
        acting = asyncio.ensure_future(self._acts())
        pilots = [asyncio.ensure_future(pilot.run()) for pilot in self.pilots]
        judges = [witness, *self._beside()]
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

    async def _acts(self) -> None:
        trouble = asyncio.ensure_future(self._trouble())
        try:
            for action in self._actions:
                await asyncio.sleep(action.after)
                await self._do(action)
        finally:
            trouble.cancel()
            await asyncio.gather(trouble, return_exceptions=True)
        await self._clear_up()
        await self._come_to_rest()
        before = self.witness.writes
        await asyncio.sleep(RESTING)
        if self.witness.writes != before:
            raise NotConverged(
                f"{self.witness.writes - before} writes while nothing changed; the last was {self.witness.last}"
            )

    async def _do(self, action: UserAction) -> None:
        """People whose request is refused see why, and go on; those whose server is down try again."""
        while True:
            try:
                await action.do(self._api_of(action.user))
            except StatusError as refusal:
                self._say(f"{action} (refused: {refusal.message})")
            except TransportError:
                await asyncio.sleep(1)
                continue
            else:
                self._say(str(action))
            return

    def _api_of(self, user: User) -> Api:
        return self.api if user == ADMIN else self.server.api("user", user=user)

    async def _trouble(self) -> None:
        for mishap in self._fortune.troubles():
            await asyncio.sleep(max(0.0, mishap.number - self.now))
            self._revive()
            self._fortune.struck(mishap)
            self._say(str(mishap))
            task = asyncio.ensure_future(self._strike(mishap))
            self._striking.append(task)
        await asyncio.get_running_loop().create_future()

    async def _strike(self, mishap: PlannedFault) -> None:
        match mishap.fault:
            case Fault.RESTART:
                await self.server.stop()
                await asyncio.sleep(mishap.seconds)
                if not self._is_dark:
                    await self.server.start()
            case Fault.BLACKOUT:
                await self._go_dark()
                await asyncio.sleep(mishap.seconds)
                await self._light_up()
            case Fault.FORGET:
                await self.server.store.compact(self.server.revision)
            case Fault.UNPLUG:
                await self._unplug(mishap.who)
                await asyncio.sleep(mishap.seconds)
                self._plug(mishap.who)
            case _:
                await self._strike_manager(self.managers[mishap.who], mishap)

    async def _strike_manager(self, manager: SimulatedManager, mishap: PlannedFault) -> None:
        match mishap.fault:
            case Fault.CRASH:
                manager.crash()
                await manager.ended()
                await asyncio.sleep(mishap.seconds)
                self._revive()
            case Fault.PAUSE:
                manager.pause()
                await asyncio.sleep(mishap.seconds)
                manager.resume()
            case Fault.PARTITION:
                manager.storm.part()
                await asyncio.sleep(mishap.seconds)
                manager.storm.rejoin()
            case Fault.CLOCK:
                manager.clock.skew += mishap.seconds
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
        """The server comes first, and knows that no node runs."""
        if self._is_dark:
            self.witness.begin_anew()
            await self.server.start(absent=self.nodes)
            self.witness.served_from(self.server.revision)
            self._is_dark = False
            for name in self.nodes:
                self._plug(name)
            self._revive()

    def _revive(self) -> None:
        """Whoever died in the storm is started again, as an init system would."""
        if self._is_dark:
            return
        for manager in self.managers.values():
            if not manager.alive:
                manager.start()

    async def _clear_up(self) -> None:
        for task in self._striking:
            task.cancel()
        await asyncio.gather(*self._striking, return_exceptions=True)
        await self._light_up()
        await self.server.start()
        self._fortune.calm()
        for manager in self.managers.values():
            manager.storm.calm()
            manager.resume()
        for name in self.nodes:
            self._plug(name)
        self._revive()

    async def _come_to_rest(self) -> None:
        end = self.now + BOUND
        writes, since = self.witness.writes, self.now
        while self.now < end:
            await asyncio.sleep(5)
            self._revive()
            if self.witness.writes != writes or not self._idle:
                writes, since = self.witness.writes, self.now
            elif self.now - since >= QUIET:
                problem = await self._scenario.settled(self.api)
                if problem:
                    raise NotConverged(f"it came to rest, but {problem}")
                return
        problem = await self._scenario.settled(self.api)
        raise NotConverged(
            f"it did not come to rest within {BOUND:g}s; the last write was {self.witness.last}"
            + (f"; {problem}" if problem else "")
        )

    @property
    def _idle(self) -> bool:
        managers = self.managers.values()
        return all(manager.idle for manager in managers) and any(manager.leads for manager in managers)

    async def _end(self, *tasks: asyncio.Future[None]) -> None:
        for manager in self.managers.values():
            manager.crash()
        everything = [*tasks, *self._plugged.values(), *self._striking]
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)
        for manager in self.managers.values():
            await manager.ended()
        await self.server.stop()

    def _beside(self) -> list[asyncio.Future[None]]:
        beside = self._scenario.beside
        if beside is None:
            return []
        return [asyncio.ensure_future(beside(self.server, self.clock, random.Random(f"beside {self._seed}")))]

    def _node(self, name: str, seed: int) -> SimulatedNode:
        rng = random.Random(f"{name} {seed}")
        subnet = f"127.8.{int(name[1:]) + 1}"
        return SimulatedNode(
            self.server.api(name), name, self.clock, rng, self._scenario.habits, subnet=subnet
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
            self._reign.wrote(written)

    def _say(self, what: str) -> None:
        self.told.append(f"{self.now:.0f}s {what}")


_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def manager_names(scenario: Scenario) -> list[str]:
    return [f"m{number}" for number in range(scenario.managers)]


def node_names(scenario: Scenario) -> list[str]:
    return [f"n{number}" for number in range(scenario.nodes)]
