"""A process whose caches take up ten thousand objects goes on renewing its lease and answering, and sees all or none of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random

from pilothouse.aio.cooperative import STRETCH
from pilothouse.api.kind_names import ConfigMap
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader
from pilothouse.runtime.controller import controller
from pilothouse.runtime.election import NoElection
from pilothouse.runtime.intents import Intent
from pilothouse.runtime.manager import Manager
from pilothouse.runtime.snapshot import Snapshot

MANY = 10_000


class Crowded:
    """A server that has config maps by the thousand, all in one piece, and nothing else. Each time it is asked for all of
    them there are others, at a later revision."""

    def __init__(self) -> None:
        self.generation = 0

    async def request(self, call: ClientRequest) -> ClientResponse:
        return ClientResponse(
            404, {}, b'{"kind":"Status","reason":"NotFound","code":404,"message":"nothing else"}'
        )

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        assert call.path == ConfigMap.path()
        yield ResponseStreamReader(200, {}, self._chunks("sendInitialEvents" in call.query))

    async def _chunks(self, initial: bool) -> AsyncIterator[bytes]:
        if initial:
            self.generation += 1
            revision = self.generation * (MANY + 1)
            lines = [
                _line("ADDED", f"g{self.generation}-{number}", revision + number) for number in range(MANY)
            ]
            end = {"k8s.io/initial-events-end": "true"}
            lines.append(_line("BOOKMARK", "", revision + MANY, end))
            yield b"".join(lines)
        await asyncio.Event().wait()


def _line(what: str, name: str, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(revision)}
    tree = {"metadata": {**metadata, "annotations": annotations or {}}}
    return json.dumps({"type": what, "object": tree}).encode() + b"\n"


@asynccontextmanager
async def looking(look: Callable[[], None]) -> AsyncIterator[None]:
    """What is seen at every turn of the loop."""

    async def turn() -> None:
        while True:
            look()
            await asyncio.sleep(0)

    task = asyncio.create_task(turn())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_cache_fills_and_is_exchanged_in_one_step_while_the_loop_turns() -> None:
    informer = Informer(Api(Crowded(), Random(1), manager="test"), ConfigMap, Random(1), SystemClock())
    told: list[str] = []
    informer.subscribe(lambda difference: told.append(difference.new.name if difference.new else "gone"))
    seen: list[frozenset[str]] = []
    turns = [0]

    def look() -> None:
        turns[0] += 1
        found = frozenset(one.name.partition("-")[0] for one in informer.cache.list()[:: MANY - 1])
        if not seen or seen[-1] != found:
            seen.append(found)
        assert len(informer.cache) in (0, MANY)

    async with looking(look):
        running = asyncio.create_task(informer.run())
        await informer.until(1 * (MANY + 1) + MANY)
        first = turns[0]
        informer.restart()
        await informer.until(2 * (MANY + 1) + MANY)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    # Read, put in their places, told: each in stretches.
    assert first >= 2 * MANY / STRETCH
    assert turns[0] - first >= 2 * MANY / STRETCH
    assert seen == [frozenset(), {"g1"}, {"g2"}]
    assert sorted(told) == sorted(["gone"] * MANY + [f"g{g}-{n}" for g in (1, 2) for n in range(MANY)])


async def test_a_leader_takes_up_what_there_is_while_the_loop_turns() -> None:
    decided: list[str] = []
    all_decided = asyncio.Event()

    @controller(ConfigMap)
    def counting(seen: Object, world: Snapshot) -> Iterator[Intent]:
        """Does nothing."""
        decided.append(seen.name)
        if len(decided) == MANY:
            all_decided.set()
        return iter(())

    api = Api(Crowded(), Random(1), manager="test")
    clock = SystemClock()
    manager = Manager(
        api, [counting], SharedInformers(api, Random(1), clock), NoElection(), clock, identity="m1"
    )
    (engine,) = manager.engines
    waiting: list[int] = []

    def look() -> None:
        if not decided and (depth := len(engine.queue)):
            waiting.append(depth)

    async with looking(look):
        running = asyncio.create_task(manager.run())
        async with asyncio.timeout(60):
            await all_decided.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert waiting == sorted(waiting)
    assert len(set(waiting)) >= MANY / STRETCH / 2
    assert len(set(decided)) == MANY
