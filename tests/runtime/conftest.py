"""Controllers at work on a real server, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest

from pilothouse.client.api import Api
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.election import Election, NoElection
from pilothouse.runtime.manager import Manager
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.simulated_server import SimulatedServer

T = TypeVar("T")


class Bench:
    """A server, and managers as they are asked for."""

    def __init__(self, loop: SeededLoop) -> None:
        self.loop = loop
        self.clock = LoopClock(loop)
        self.server = SimulatedServer(self.clock, seed=1)
        self.api = self.server.api("tester")
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._started = False

    def run(self, scenario: Callable[[Bench], Awaitable[T]]) -> T:
        async def whole() -> T:
            async with self.server.running():
                try:
                    return await scenario(self)
                finally:
                    for task in self._tasks:
                        task.cancel()
                    await asyncio.gather(*self._tasks, return_exceptions=True)

        return self.loop.run_until_complete(whole())

    def manage(
        self, controllers: Sequence[Controller], *, api: Api | None = None, election: Election | None = None
    ) -> Manager:
        """A manager that runs until the scenario ends."""
        api = api or self.server.api("manager")
        informers = SharedInformers(api, random.Random(1), self.clock)
        manager = Manager(api, controllers, informers, election or NoElection(), self.clock, identity="m1")
        self.start(manager.run())
        return manager

    def start(self, part: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(part)
        assert isinstance(task, asyncio.Task)
        self._tasks.append(task)
        return task

    async def settle(self, seconds: float = 30.0) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with SeededLoop(1) as loop:
        yield Bench(loop)
