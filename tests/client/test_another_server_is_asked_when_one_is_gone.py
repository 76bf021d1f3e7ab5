"""Two servers of one API: whichever can be reached is asked, and what one of them will never say any more is not waited for."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tests.kit.certificates import Authority

from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.failover import Failover
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.transport import ClientRequest, Interrupted, NotSent, Transport

PATIENCE = 30.0
ANY = ClientRequest("GET", "/version")


class Server:
    """Says its name to whoever asks; a watch gets its name and then nothing more."""

    def __init__(self, name: str, url: str, site: web.TCPSite, runner: web.ServerRunner) -> None:
        self.name, self.url = name, url
        self.asked = 0
        self.heard = asyncio.Event()
        self.mute = False
        self._site, self._runner = site, runner

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        self.heard.set()
        if self.mute:
            await asyncio.Event().wait()
        if "watch" not in request.query:
            return web.Response(text=self.name, headers={"Connection": "close"})
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(self.name.encode() + b"\n")
        await asyncio.Event().wait()
        return stream

    async def stop_listening(self) -> None:
        """Whoever is connected stays so."""
        await self._site.stop()


@asynccontextmanager
async def serving(name: str, tls: ssl.SSLContext) -> AsyncIterator[Server]:
    found: list[Server] = []
    runner = web.ServerRunner(web.Server(lambda request: found[0].answer(request)), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    found.append(Server(name, f"https://127.0.0.1:{runner.addresses[0][1]}", site, runner))
    try:
        yield found[0]
    finally:
        await runner.cleanup()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "pki")


@pytest.fixture
async def servers(authority: Authority) -> AsyncIterator[tuple[Server, Server]]:
    pair = authority.server()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.cert, pair.key)
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(serving("one", tls)),
            await stack.enter_async_context(serving("two", tls)),
        )


@pytest.fixture
async def transport(authority: Authority, servers: tuple[Server, Server]) -> AsyncIterator[Transport]:
    one, two = servers
    access = Access(one.url, others=(two.url,), authority=authority.cert.read_bytes())
    async with asyncio.timeout(PATIENCE), HttpTransport.open(access, SystemClock(), agent="test") as opened:
        yield opened


async def test_the_next_is_asked_and_stayed_with(
    transport: Transport, servers: tuple[Server, Server]
) -> None:
    one, two = servers
    assert (await transport.request(ANY)).body == b"one"
    await one.stop_listening()
    answers = [(await transport.request(ANY)).body for _ in range(3)]
    assert answers == [b"two"] * 3
    assert (one.asked, two.asked) == (1, 3)


async def test_watches_do_not_wait_for_a_server_that_was_left(
    transport: Transport, servers: tuple[Server, Server]
) -> None:
    one, _ = servers
    watch = ClientRequest("GET", "/api/v1/pods", query={"watch": "1"})
    async with transport.stream(watch) as stream:
        assert await anext(stream.chunks) == b"one\n"
        await one.stop_listening()
        assert (await transport.request(ANY)).body == b"two"
        with pytest.raises(Interrupted):
            await anext(stream.chunks)
    async with transport.stream(watch) as stream:
        assert await anext(stream.chunks) == b"two\n"


async def test_one_that_leaves_a_request_waiting_is_not_asked_again(
    authority: Authority, servers: tuple[Server, Server]
) -> None:
    one, two = servers
    one.mute = True
    async with AsyncExitStack() as stack:
        ways = [
            await stack.enter_async_context(
                HttpTransport.to_one(
                    Access(each.url, authority=authority.cert.read_bytes()), SystemClock(), "test"
                )
            )
            for each in servers
        ]
        transport = Failover(ways, patience=0.0)
        waiting = asyncio.create_task(transport.request(ANY))
        async with asyncio.timeout(PATIENCE):
            await one.heard.wait()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert (await transport.request(ANY)).body == b"two"
        assert (one.asked, two.asked) == (1, 1)


async def test_all_are_named_when_none_is_there(transport: Transport, servers: tuple[Server, Server]) -> None:
    for each in servers:
        await each.stop_listening()
    with pytest.raises(NotSent, match=f"none of {servers[0].url}, {servers[1].url} can be reached"):
        await transport.request(ANY)
