"""While the API server is away, or hangs, no node and no pilot can be heard of, and that says nothing about them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Final

import pytest
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import KindName, Node, Pilot
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    NotSent,
    ResponseStreamReader,
    Transport,
    TransportError,
)
from pilothouse.client.watch_freshness import LONGEST
from pilothouse.controllers.node_lifecycle import LEASES, SILENCE_GRACE, node_lifecycle
from pilothouse.controllers.pilots.pilot_heartbeats import silent_pilots
from pilothouse.sim import heartbeats

AWAY: Final = 120.0
UP: Final = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Told:
    """Every answer to whether something is ready, in the order in which they were given."""

    def __init__(self, bench: Bench, noun: KindName) -> None:
        self.answers: list[tuple[str, str]] = []
        informer = Informer(bench.server.api("reader"), noun, random.Random(noun.kind), bench.clock)
        informer.subscribe(self._changed)
        bench.start(informer.run())

    def _changed(self, difference: CacheChange) -> None:
        one = difference.new
        ready = one.condition("Ready") if one is not None else None
        if one is not None and ready is not None:
            self.answers.append((one.name, str(ready["status"])))

    @property
    def statuses(self) -> set[str]:
        return {status for _, status in self.answers}


class Line:
    """A way to the server whose watches can be made to bring nothing more, without an end; so do those that are opened then."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.dead = asyncio.Event()

    async def request(self, call: ClientRequest) -> ClientResponse:
        return await self._transport.request(call)

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        async with self._transport.stream(call) as stream:
            yield replace(stream, chunks=self._passed(stream.chunks))

    async def _passed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for data in chunks:
            if self.dead.is_set():
                await asyncio.Event().wait()
            yield data


class Hang:
    """A server that takes and says nothing for a while, and breaks no connection."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._answers = asyncio.Event()
        self._answers.set()

    def api(self, name: str) -> Api:
        """A client of it."""
        way = _Held(self._bench.server.transport(name), self._answers)
        return Api(way, random.Random(name), manager=name)

    async def last(self, seconds: float) -> None:
        self._answers.clear()
        await self._bench.settle(seconds)
        self._answers.set()


class _Held:
    """A way to a server that may hang."""

    def __init__(self, transport: Transport, answers: asyncio.Event) -> None:
        self._transport = transport
        self._answers = answers

    async def request(self, call: ClientRequest) -> ClientResponse:
        await self._its_turn()
        return await self._transport.request(call)

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        await self._its_turn()
        async with self._transport.stream(call) as stream:
            yield replace(stream, chunks=self._passed(stream.chunks))

    async def _passed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for data in chunks:
            await self._answers.wait()
            yield data

    async def _its_turn(self) -> None:
        try:
            async with asyncio.timeout(heartbeats.EVERY):
                await self._answers.wait()
        except TimeoutError:
            raise NotSent("the server hangs") from None


async def beat(bench: Bench, name: str, namespace: str, holder: str, api: Api | None = None) -> None:
    """Renew a lease every few seconds, when there is a server. One that is back has to wait for its turn."""
    api = api or bench.server.api(holder)
    while True:
        with suppress(TransportError):
            await heartbeats.renew(api, name, namespace, holder, bench.clock)
        await asyncio.sleep(heartbeats.EVERY)


async def nodes(bench: Bench, *names: str, hang: Hang | None = None) -> dict[str, asyncio.Task[None]]:
    """Ready ones, each with a heart that beats."""
    for name in names:
        await bench.api.create(Node, {"metadata": {"name": name}})
        await bench.api.patch(Node, name, "", {"status": {"conditions": [UP]}}, subresource="status")
    hearts = {}
    for name in names:
        hearts[name] = bench.start(beat(bench, name, LEASES, name, (hang or bench.server).api(name)))
        await bench.settle(3)
    return hearts


async def touch(bench: Bench, name: str) -> None:
    """Have a node looked at every second."""
    for n in count():
        await bench.api.patch(Node, name, "", {"metadata": {"labels": {"touched": str(n)}}})
        await asyncio.sleep(1)


async def is_away(bench: Bench) -> None:
    await bench.server.stop()
    await bench.settle(AWAY)
    await bench.server.start()


def test_nodes_get_their_grace_once_more(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        hearts = await nodes(bench, "n1", "n2", "n3")
        told = Told(bench, Node)
        bench.manage([node_lifecycle])
        await bench.settle(65)
        await is_away(bench)
        await bench.settle(SILENCE_GRACE)
        assert told.statuses == {"True"}
        hearts["n1"].cancel()
        await bench.settle(SILENCE_GRACE + 15)
        assert told.answers[-1] == ("n1", "Unknown"), "who is silent while others are heard is not counted on"

    bench.run(scenario)


def test_a_node_that_went_while_the_server_was_away_is_found_out(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        hearts = await nodes(bench, "n1", "n2")
        told = Told(bench, Node)
        bench.manage([node_lifecycle])
        await bench.settle(65)
        hearts["n1"].cancel()
        await is_away(bench)
        await bench.settle(SILENCE_GRACE - 10)
        assert told.statuses == {"True"}
        await bench.settle(60)
        assert told.answers[-1] == ("n1", "Unknown")

    bench.run(scenario)


def test_a_watch_that_brings_nothing_at_all_says_nothing_about_a_node(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        await nodes(bench, "n1", "n2")
        told = Told(bench, Node)
        line = Line(bench.server.transport("manager"))
        bench.manage([node_lifecycle], api=Api(line, random.Random(1), manager="manager"))
        await bench.settle(65)
        line.dead.set()
        await bench.settle(2 * SILENCE_GRACE)
        assert told.statuses == {"True"}

    bench.run(scenario)


@pytest.mark.parametrize("seconds", [40.0, 52.0, 58.0, 66.0, 74.0, 88.0, 140.0])
@pytest.mark.parametrize("names", [("n1",), ("n1", "n2", "n3")])
def test_a_server_that_hangs_says_nothing_about_a_node(
    bench: Bench, seconds: float, names: tuple[str, ...]
) -> None:
    async def scenario(bench: Bench) -> None:
        hang = Hang(bench)
        hearts = await nodes(bench, *names, hang=hang)
        told = Told(bench, Node)
        bench.manage([node_lifecycle], api=hang.api("manager"))
        for name in names:
            bench.start(touch(bench, name))
        await bench.settle(65)
        await hang.last(seconds)
        await bench.settle(2 * SILENCE_GRACE)
        assert told.statuses == {"True"}
        hearts["n1"].cancel()
        await bench.settle(4 * SILENCE_GRACE)
        assert ("n1", "Unknown") in told.answers

    bench.run(scenario)


def test_a_node_that_went_while_the_server_hung_is_found_out(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        hang = Hang(bench)
        hearts = await nodes(bench, "n1", "n2", hang=hang)
        told = Told(bench, Node)
        bench.manage([node_lifecycle], api=hang.api("manager"))
        await bench.settle(65)
        hearts["n1"].cancel()
        await hang.last(88)
        await bench.settle(SILENCE_GRACE - 10)
        assert told.statuses == {"True"}
        await bench.settle(30)
        assert told.answers[-1] == ("n1", "Unknown")

    bench.run(scenario)


def test_a_node_is_found_out_even_if_nobody_else_is_there_to_be_heard(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        hearts = await nodes(bench, "n1")
        told = Told(bench, Node)
        bench.manage([node_lifecycle])
        await bench.settle(65)
        hearts["n1"].cancel()
        await bench.settle(SILENCE_GRACE + 2 * LONGEST)
        assert told.answers[-1] == ("n1", "Unknown"), "bookmarks say that there was nothing to hear"

    bench.run(scenario)


def test_pilots_get_their_grace_once_more(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        tree = {"metadata": {"name": "p", "namespace": "default"}, "spec": {}}
        await bench.api.create(Pilot, {"apiVersion": Pilot.api_version, "kind": "Pilot", **tree})
        await bench.api.patch(Pilot, "p", "default", {"status": {"conditions": [UP]}}, subresource="status")
        heart = bench.start(beat(bench, "pilot-p", "default", "p"))
        bench.start(beat(bench, "another", "default", "another"))
        told = Told(bench, Pilot)
        bench.manage([silent_pilots(60.0)])
        await bench.settle(65)
        await is_away(bench)
        await bench.settle(60)
        assert told.statuses == {"True"}
        heart.cancel()
        await bench.settle(75)
        assert told.answers[-1] == ("p", "Unknown")

    bench.run(scenario)
