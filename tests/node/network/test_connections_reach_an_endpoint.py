"""The forwarding itself: real connections on loopback, through a real listening place."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

import pytest
from tests.kit.processes import free_port
from tests.kit.waiting import eventually

from pilothouse.base.clock import SystemClock
from pilothouse.node.services.backends import Backend, ListenAddress, PortOwner, ServiceEndpoint
from pilothouse.node.services.connection_budget import ConnectionBudget
from pilothouse.node.services.service_proxy import ServiceProxy
from pilothouse.node.services.socket_store import SocketStore

OWNER = PortOwner("Service", "shop", "db")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def proxy() -> AsyncIterator[ServiceProxy]:
    proxy = ServiceProxy(SystemClock(), Random(7), ConnectionBudget.of_this_process())
    yield proxy
    await proxy.close()


@contextlib.asynccontextmanager
async def serving(handler: Handler, address: str = "127.71.0.1") -> AsyncIterator[ServiceEndpoint]:
    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handled, address, 0)
    async with server:
        yield ServiceEndpoint(*server.sockets[0].getsockname())


def saying(name: bytes) -> Handler:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name)
        await writer.drain()

    return say


async def heard(at: ListenAddress) -> bytes:
    reader, writer = await asyncio.open_connection(*at)
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


def place() -> ListenAddress:
    """A place of services that is free."""
    return ListenAddress("127.96.250.1", free_port())


async def test_all_endpoints_are_reached_and_changes_count_at_once(proxy: ServiceProxy) -> None:
    at = place()
    async with serving(saying(b"one")) as one, serving(saying(b"two"), "127.71.0.2") as two:
        await proxy.settle({at: Backend(OWNER, "s", (one, two))})
        assert {await heard(at) for _ in range(30)} == {b"one", b"two"}
        await proxy.settle({at: Backend(OWNER, "s", (two,))})
        assert {await heard(at) for _ in range(10)} == {b"two"}


async def test_a_place_is_nobody_elses_between_two_agents() -> None:
    at, gone = place(), place()
    ends = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with ends[0], ends[1]:
        async with serving(saying(b"one")) as one:
            backend = Backend(OWNER, "s", (one,))
            first = ServiceProxy(
                SystemClock(), Random(7), ConnectionBudget.of_this_process(), SocketStore(*ends)
            )
            await first.settle({at: backend, gone: backend})
            await first.settle({at: backend})
            with pytest.raises(ConnectionRefusedError):
                await heard(gone)
            # As it is with one that is killed: its descriptors are closed, and nothing else is done.
            await first.close()
            for host in (at.address, "0.0.0.0"):
                with socket.socket() as squatter:
                    squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    with pytest.raises(OSError, match="in use"):
                        squatter.bind((host, at.port))
            waiting = asyncio.create_task(heard(at))
            second = ServiceProxy(
                SystemClock(), Random(7), ConnectionBudget.of_this_process(), SocketStore(*ends)
            )
            await second.settle({at: backend})
            assert await waiting == b"one"
            assert second.problems == {}
            await second.close()
            # Of a service that went while no agent ran, nothing is left.
            third = ServiceProxy(
                SystemClock(), Random(7), ConnectionBudget.of_this_process(), SocketStore(*ends)
            )
            await third.settle({})
            with pytest.raises(ConnectionRefusedError):
                await heard(at)
            await third.close()


async def test_who_calls_a_service_without_endpoints_is_refused(proxy: ServiceProxy) -> None:
    at = place()
    async with serving(saying(b"one")) as one:
        await proxy.settle({at: Backend(OWNER, "s", (one,))})
        await proxy.settle({})
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*at)


async def test_an_endpoint_that_does_not_answer_is_passed_by(proxy: ServiceProxy) -> None:
    at = place()
    async with serving(saying(b"one")) as one:
        dead = ServiceEndpoint("127.71.0.9", free_port())
        await proxy.settle({at: Backend(OWNER, "s", (dead, one))})
        assert [await heard(at) for _ in range(10)] == [b"one"] * 10


async def test_when_no_endpoint_answers_the_connection_is_reset(proxy: ServiceProxy) -> None:
    at = place()
    await proxy.settle({at: Backend(OWNER, "s", (ServiceEndpoint("127.71.0.9", free_port()),))})
    with pytest.raises(ConnectionResetError):
        await heard(at)


async def test_who_has_sent_everything_still_gets_the_answer(proxy: ServiceProxy) -> None:
    async def counting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = await reader.read()
        writer.write(str(len(got)).encode())
        await writer.drain()

    at = place()
    async with serving(counting) as one:
        await proxy.settle({at: Backend(OWNER, "s", (one,))})
        reader, writer = await asyncio.open_connection(*at)
        writer.write(b"x" * 5_000_000)
        writer.write_eof()
        async with asyncio.timeout(20):
            assert await reader.read() == b"5000000"
        writer.close()

        async def over() -> bool:
            return proxy.connections == 0

        await eventually(over)


async def test_a_reader_that_takes_its_time_holds_the_sender_back(proxy: ServiceProxy) -> None:
    sent = 0
    begun = asyncio.Event()

    async def pouring(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(400):
            writer.write(b"x" * 262_144)
            sent += 262_144
            begun.set()
            await writer.drain()

    at = place()
    async with serving(pouring) as one:
        await proxy.settle({at: Backend(OWNER, "s", (one,))})
        with socket.socket() as lazy:
            lazy.setblocking(False)
            await asyncio.get_running_loop().sock_connect(lazy, at)
            await begun.wait()
            before = -1
            # It has come to rest once nothing more was sent in a while.
            while before != sent:
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 400 * 262_144 / 2


async def test_a_connection_that_breaks_breaks_the_other(proxy: ServiceProxy) -> None:
    lost = asyncio.Event()

    async def waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        lost.set()

    at = place()
    async with serving(waiting) as one:
        await proxy.settle({at: Backend(OWNER, "s", (one,))})
        _, writer = await asyncio.open_connection(*at)
        writer.write(b"x")
        await writer.drain()
        writer.transport.abort()
        async with asyncio.timeout(60):
            await lost.wait()


async def test_open_connections_stay_when_their_service_goes(proxy: ServiceProxy) -> None:
    async def echoing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()

    at = place()
    async with serving(echoing) as one:
        await proxy.settle({at: Backend(OWNER, "s", (one,))})
        reader, writer = await asyncio.open_connection(*at)
        writer.write(b"before\n")
        assert await reader.readline() == b"before\n"
        await proxy.settle({})
        writer.write(b"after\n")
        assert await reader.readline() == b"after\n"
        writer.close()


async def test_a_place_that_is_taken_is_told_and_had_once_it_is_free(proxy: ServiceProxy) -> None:
    at = place()
    async with serving(saying(b"one")) as one:
        with socket.socket() as other:
            other.bind(at)
            other.listen()
            await proxy.settle({at: Backend(OWNER, "shop/db:sql", (one,))})
            assert "another program listens there" in proxy.problems[at].message
            assert f"shop/db:sql can't be reached at {at.address}:{at.port}" in proxy.problems[at].message
        await proxy.settle({at: Backend(OWNER, "shop/db:sql", (one,))})
        assert proxy.problems == {}
        assert await heard(at) == b"one"


async def test_an_address_of_another_machine_is_told(proxy: ServiceProxy) -> None:
    at = ListenAddress("192.0.2.77", free_port())
    await proxy.settle({at: Backend(OWNER, "s", (ServiceEndpoint("127.71.0.1", 1),))})
    assert "the address is not one of this machine" in proxy.problems[at].message
    await proxy.settle({})
    assert proxy.problems == {}


async def test_nothing_is_open_after_the_end() -> None:
    proxy = ServiceProxy(SystemClock(), Random(7), ConnectionBudget.of_this_process())
    at = place()

    async def waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(waiting) as one:
        await proxy.settle({at: Backend(OWNER, "s", (one,))})
        reader, writer = await asyncio.open_connection(*at)
        writer.write(b"x")

        async def joined() -> bool:
            return proxy.connections == 1

        await eventually(joined)
        await proxy.close()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
    assert proxy.listening == frozenset()
    assert proxy.connections == 0
