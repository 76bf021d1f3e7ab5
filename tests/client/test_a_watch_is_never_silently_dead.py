"""Hours of a cache's life, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.kit.loopback import loopback

from pilothouse.api.kind_names import ConfigMap
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    Interrupted,
    NotSent,
    ResponseStreamReader,
    Transport,
)
from pilothouse.client.watch_machine import SILENCE

pytestmark = pytest.mark.looptime


class Line:
    """A way to the server that counts, and can be made to swallow everything or to refuse."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.swallows = False
        self.refuses = False
        self.cut = asyncio.Event()
        """Breaks the streams that are open."""
        self.watches: list[dict[str, str]] = []
        self.lists = 0

    async def request(self, call: ClientRequest) -> ClientResponse:
        if call.method == "GET":
            self._check()
            self.lists += 1
        return await self._transport.request(call)

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        self._check()
        self.watches.append(dict(call.query))
        async with self._transport.stream(call) as stream:
            yield replace(stream, chunks=self._passed(stream.chunks))

    async def _passed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        cut = asyncio.ensure_future(self.cut.wait())
        try:
            while True:
                data = asyncio.ensure_future(anext(chunks, None))
                await asyncio.wait({data, cut}, return_when=asyncio.FIRST_COMPLETED)
                if cut.done():
                    data.cancel()
                    await asyncio.gather(data, return_exceptions=True)
                    raise Interrupted("connection reset")
                if self.swallows:
                    await asyncio.Event().wait()
                if (found := data.result()) is None:
                    return
                yield found
        finally:
            cut.cancel()

    def _check(self) -> None:
        if self.refuses:
            raise NotSent("nobody there")


@asynccontextmanager
async def following() -> AsyncIterator[tuple[Api, Line, Informer]]:
    async with loopback() as transport:
        line = Line(transport)
        api = Api(line, Random(1), manager="test")
        informer = Informer(api, ConfigMap, Random(1), SystemClock(), namespace="default")
        task = asyncio.create_task(informer.run())
        try:
            await informer.synced()
            yield api, line, informer
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}}


async def test_hours_go_by_and_everything_is_seen_without_reading_anew() -> None:
    async with following() as (api, line, informer):
        for n in range(72):
            created = await api.create(ConfigMap, config_map(f"m{n}"))
            await informer.until(created.revision)
            assert informer.cache.get("default", f"m{n}") is not None
            await asyncio.sleep(100)
        resumed = [query for query in line.watches if "sendInitialEvents" not in query]
        assert len(line.watches) - len(resumed) == 1
        assert 7200 / 610 <= len(resumed) <= 7200 / 290, "watches last five to ten minutes"
        assert line.lists == 0


async def test_a_stream_that_says_nothing_any_more_is_replaced() -> None:
    async with following() as (api, line, informer):
        loop = asyncio.get_running_loop()
        line.swallows = True
        created = await api.create(ConfigMap, config_map("a"))
        begun = loop.time()
        waiting = asyncio.create_task(informer.until(created.revision))
        await asyncio.sleep(SILENCE / 2)
        assert not waiting.done()
        line.swallows = False
        await waiting
        assert loop.time() - begun <= SILENCE + 5
        assert line.watches[-1]["resourceVersion"]


async def test_a_server_that_is_away_is_found_again_and_meanwhile_missed() -> None:
    async with following() as (api, line, informer):
        line.swallows = line.refuses = True
        await api.create(ConfigMap, config_map("a"))
        await asyncio.sleep(1000)
        assert "nobody there" in informer.problem
        line.swallows = line.refuses = False
        created = await api.create(ConfigMap, config_map("b"))
        await informer.until(created.revision)
        assert {each.name for each in informer.cache.list()} >= {"a", "b"}
        assert informer.problem == ""


async def test_a_quiet_watch_is_resumed_soon_after_each_of_many_restarts() -> None:
    async with following() as (_, line, informer):
        for _ in range(8):
            line.refuses = True
            line.cut.set()
            await asyncio.sleep(3)
            line.refuses = False
            line.cut = asyncio.Event()
            before = len(line.watches)
            await asyncio.sleep(5)
            assert len(line.watches) == before + 1
            assert informer.problem == ""


async def test_a_subscriber_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async with following() as (api, _, informer):
        told: list[str] = []

        def fails(difference: object) -> None:
            raise RuntimeError("a fault of its own")

        informer.subscribe(fails)
        informer.subscribe(lambda difference: told.append(difference.new.name if difference.new else ""))
        created = await api.create(ConfigMap, config_map("a"))
        await informer.until(created.revision)
        assert told[-1] == "a"
        assert "a fault of its own" in caplog.text
