"""A fleet in a bottle: a server, managers, nodes, and a seed that decides what befalls them.

    report = simulate(Scenario("sets", [stateful_sets, garbage], script, settled), seed=7, weather=STORMY)

A run has three parts. *Trouble*: the script does what users do, while managers crash, stand still and are started again, the
server restarts, nodes are lost, and every request goes through a storm. *Calm*: nothing goes wrong any more, and within a
bound everything has to come to rest, in the state that the scenario asks for. *Rest*: nothing is written any more, leases
aside. All the while a witness sees every write and knows what must never be.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import msgspec

from pilothouse.client.electing import Timing
from pilothouse.client.rest import Api
from pilothouse.runtime.declaring import Controller
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.nodes import Habits, ModelNode
from pilothouse.sim.processes import Process
from pilothouse.sim.server import Server
from pilothouse.sim.storms import Fault, Rates
from pilothouse.sim.witness import Invariant, Violated, Witness

BOUND = 1800.0
"""Seconds within which everything has come to rest once nothing goes wrong any more."""
QUIET = 90.0
"""Seconds without a write that count as rest."""
RESTING = 600.0


class NotConverged(AssertionError):
    """It did not come to rest, or not where it should."""


class Weather(msgspec.Struct, frozen=True):
    """How bad it gets."""

    rates: Rates = Rates()
    troubles: float = 0.0
    """Seconds between two big ones (a crash, a pause, a restart, a lost node), on average; 0 is never."""
    skew: float = 0.0
    """By how much clocks may be wrong, either way."""


CALM = Weather()
STORMY = Weather(
    Rates(
        lost_before=0.02,
        lost_after=0.02,
        conflict=0.02,
        crash_before=0.005,
        crash_after=0.005,
        cut=0.02,
        repeated=0.02,
        delay=0.2,
        lag=1.0,
    ),
    troubles=30.0,
    skew=20.0,
)

Script = Callable[["Fleet"], Awaitable[None]]
Settled = Callable[[Api], Awaitable[str]]
"""What is not as it should be at the end; empty if all is."""


class Scenario(msgspec.Struct, frozen=True):
    """What users do, and what has to come of it."""

    name: str
    controllers: Sequence[Controller]
    script: Script
    settled: Settled
    invariants: Sequence[Invariant] = ()
    managers: int = 2
    nodes: int = 2


class Report(msgspec.Struct, frozen=True):
    """A run that held."""

    seed: int
    digest: str
    """Of every write, who made it and when: the same for the same seed."""
    writes: int
    seconds: float
    """Simulated."""
    troubles: list[str]


class Fleet:
    """Everything in the bottle."""

    def __init__(self, scenario: Scenario, seed: int, weather: Weather, loop: SeededLoop) -> None:
        rng = random.Random(f"fleet {seed}")
        self._rng = rng
        self._loop = loop
        self._weather = weather
        self.clock = LoopClock(loop)
        self.server = Server(self.clock, seed=seed)
        self.api = self.server.api("user")
        """What the script writes with: people have good connections."""
        self.witness = Witness(self.server.store, scenario.invariants)
        self.troubles: list[str] = []
        self.managers = [
            Process(
                f"m{number}",
                self.server,
                scenario.controllers,
                loop,
                seed=seed,
                rates=weather.rates,
                timing=Timing(15.0, 10.0, 2.0),
                skew=rng.uniform(-weather.skew, weather.skew),
            )
            for number in range(scenario.managers)
        ]
        self.nodes = [self._node(number, seed) for number in range(scenario.nodes)]
        self._node_tasks: dict[str, asyncio.Task[None]] = {}
        self._scenario = scenario

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._loop.time()

    async def run(self) -> None:
        """Trouble, calm, rest. Raises ``Violated`` or ``NotConverged``."""
        witness = asyncio.ensure_future(self.witness.run())
        async with AsyncExitStack() as up:
            await up.enter_async_context(self.server.running())
            for node in self.nodes:
                self._plug(node)
            for manager in self.managers:
                manager.start()
            acting = asyncio.ensure_future(self._acts())
            try:
                await asyncio.wait((witness, acting), return_when=asyncio.FIRST_COMPLETED)
                if witness.done():
                    await witness
                await acting
            finally:
                await self._end(acting, witness)

    async def _acts(self) -> None:
        trouble = asyncio.ensure_future(self._make_trouble())
        try:
            await self._scenario.script(self)
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

    async def _make_trouble(self) -> None:
        if not self._weather.troubles:
            return
        kinds = [self._crash, self._pause, self._compact]
        if self.nodes:
            kinds.append(self._unplug)
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._weather.troubles))
            self._revive()
            await self._rng.choice(kinds)()

    async def _crash(self) -> None:
        manager = self._rng.choice(self.managers)
        self._told(f"{manager.name} crashes")
        manager.crash()
        await manager.ended()
        await asyncio.sleep(self._rng.uniform(0, 20))
        manager.start()

    async def _pause(self) -> None:
        manager = self._rng.choice(self.managers)
        seconds = self._rng.uniform(1, 45)
        self._told(f"{manager.name} stands still for {seconds:.0f}s")
        manager.storm.pause()
        await asyncio.sleep(seconds)
        manager.storm.resume()

    async def _compact(self) -> None:
        self._told("history is forgotten")
        await self.server.store.compact(self.server.revision)

    async def _unplug(self) -> None:
        node = self._rng.choice(self.nodes)
        seconds = self._rng.uniform(5, 120)
        self._told(f"{node.name} is unplugged for {seconds:.0f}s")
        task = self._node_tasks[node.name]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(seconds)
        self._plug(node)

    def _revive(self) -> None:
        """Whoever died in the storm is started again, as an init system would."""
        for manager in self.managers:
            if not manager.alive:
                self._told(f"{manager.name} is started again")
                manager.start()

    async def _clear_up(self) -> None:
        for manager in self.managers:
            manager.storm.calm()
        for node in self.nodes:
            if self._node_tasks[node.name].done():
                self._plug(node)
        self._revive()

    async def _come_to_rest(self) -> None:
        end = self.now + BOUND
        writes, since = self.witness.writes, self.now
        while self.now < end:
            await asyncio.sleep(5)
            self._revive()
            if self.witness.writes != writes or not all(manager.idle for manager in self.managers):
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

    async def _end(self, *tasks: asyncio.Future[None]) -> None:
        for manager in self.managers:
            manager.crash()
        everything = [*tasks, *self._node_tasks.values()]
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)
        for manager in self.managers:
            await manager.ended()

    def _node(self, number: int, seed: int) -> ModelNode:
        name = f"n{number}"
        return ModelNode(
            self.server.api(name),
            name,
            self.clock,
            random.Random(f"{name} {seed}"),
            Habits(),
            subnet=f"127.8.{number + 1}",
        )

    def _plug(self, node: ModelNode) -> None:
        task = asyncio.ensure_future(node.run())
        task.set_name(node.name)
        self._node_tasks[node.name] = task

    def _told(self, trouble: str) -> None:
        self.troubles.append(f"{self.now:.1f}s {trouble}")


def simulate(
    scenario: Scenario,
    *,
    seed: int,
    weather: Weather = STORMY,
    crash: tuple[int, Fault] | None = None,
) -> Report:
    """One run. Raises ``Violated`` or ``NotConverged``, with the seed in the message.

    ``crash`` has the first manager meet this fault at its write of this number.
    """
    with SeededLoop(seed) as loop:
        fleet = Fleet(scenario, seed, weather, loop)
        if crash is not None:
            fleet.managers[0].storm.at_write(*crash)
        try:
            loop.run_until_complete(fleet.run())
        except (Violated, NotConverged) as failure:
            told = "; ".join(fleet.troubles[-20:]) or "nothing went wrong"
            raise type(failure)(
                f"{scenario.name}, seed {seed}: {failure}\n  what befell it: {told}"
            ) from None
        digest = hashlib.sha256("\n".join(fleet.server.trace).encode()).hexdigest()
        return Report(seed, digest, fleet.witness.writes, fleet.now, fleet.troubles)
