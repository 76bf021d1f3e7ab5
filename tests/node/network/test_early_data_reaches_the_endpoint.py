"""Clients that speak, end or break before an endpoint is connected, and endpoints that do so before they are joined.

The connections are as asyncio has them before Python 3.11.4: one that is paused as it is made is read from nevertheless.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.waiting import eventually

from pilothouse.node.services.forwarding import ClientSide, ForwardingSide


def _ignored(transport: asyncio.Transport) -> None:
    """How many connections there are is not looked at here."""


class Wire(asyncio.Transport):
    """One connection, whose far end is the test."""

    def __init__(self, side: ForwardingSide, room: int = 1_000_000) -> None:
        super().__init__()
        self.heard = b""
        self.end_heard = self.closed = self.broken = False
        self.read_from = False
        self._side = side
        self._room = room
        self._paused = False
        side.connection_made(self)
        self.read_from = True

    # What the far end does.

    def say(self, data: bytes) -> None:
        assert self.read_from
        self._side.data_received(data)

    def end(self) -> None:
        assert self.read_from
        if self._side.eof_received():
            self.read_from = False
        else:
            self.close()

    def fail(self) -> None:
        self.abort()
        self._side.connection_lost(ConnectionResetError())

    # What asyncio promises.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.closed or self.broken

    def is_reading(self) -> bool:
        return not self._paused and not self.is_closing()

    def pause_reading(self) -> None:
        if self.is_reading():
            self._paused, self.read_from = True, False

    def resume_reading(self) -> None:
        if self._paused and not self.is_closing():
            self._paused, self.read_from = False, True

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.end_heard
        assert not self.is_closing()
        self.heard += data
        if len(self.heard) > self._room:
            self._side.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.end_heard = True

    def close(self) -> None:
        self.closed, self.read_from = True, False

    def abort(self) -> None:
        self.broken, self.read_from = True, False


class Call:
    """A client that is connected, and an endpoint that it will be led to."""

    def __init__(self, room: int = 1_000_000) -> None:
        self._led: asyncio.Future[ForwardingSide] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._outgoing = ForwardingSide()
        self.client = Wire(ClientSide(self._lead, self._tasks, _ignored, _ignored))
        self.endpoint = Wire(self._outgoing, room)

    async def _lead(self, client: str) -> ForwardingSide:
        return await self._led

    async def joined(self) -> None:
        self._led.set_result(self._outgoing)
        await asyncio.gather(*self._tasks)

    async def refused(self) -> None:
        self._led.set_exception(ConnectionRefusedError())
        await asyncio.gather(*self._tasks)


async def test_a_client_that_speaks_early_is_heard_and_answered() -> None:
    call = Call()
    call.client.say(b"early ")
    assert not call.client.read_from, "no more than one read is kept"
    await call.joined()
    assert call.client.read_from
    call.client.say(b"late")
    call.endpoint.say(b"answer")
    assert (call.endpoint.heard, call.client.heard) == (b"early late", b"answer")


async def test_an_endpoint_that_speaks_first_is_heard() -> None:
    call = Call()
    call.endpoint.say(b"greeting, ")
    assert not call.endpoint.read_from
    await call.joined()
    call.endpoint.say(b"and more")
    assert call.client.heard == b"greeting, and more"


async def test_a_client_that_has_ended_early_still_gets_the_answer() -> None:
    call = Call()
    call.client.end()
    assert not call.client.closed
    await call.joined()
    assert call.endpoint.end_heard
    call.endpoint.say(b"answer")
    assert call.client.heard == b"answer"
    call.endpoint.end()
    assert call.client.closed
    assert call.endpoint.closed


async def test_what_both_said_is_handed_on_though_both_have_ended() -> None:
    call = Call()
    for wire, said in ((call.client, b"question"), (call.endpoint, b"answer")):
        wire.say(said)
        wire.resume_reading()
        wire.end()
    await call.joined()
    assert (call.endpoint.heard, call.client.heard) == (b"question", b"answer")
    assert call.client.closed
    assert call.endpoint.closed


async def test_what_was_kept_holds_the_client_back_where_it_fills_the_endpoint() -> None:
    call = Call(room=3)
    call.client.say(b"early")
    await call.joined()
    assert call.endpoint.heard == b"early"
    assert not call.client.read_from


@pytest.mark.parametrize("breaking", ["client", "endpoint"])
async def test_a_connection_that_breaks_early_breaks_the_other(breaking: str) -> None:
    call = Call()
    call.client.say(b"early")
    (call.client if breaking == "client" else call.endpoint).fail()
    await call.joined()
    assert call.client.broken
    assert call.endpoint.broken
    assert call.endpoint.heard == b""


async def test_who_spoke_early_learns_that_nobody_answers() -> None:
    call = Call()
    call.client.say(b"early")
    await call.refused()
    assert call.client.broken


async def test_real_connections_keep_what_comes_early() -> None:
    """With this Python's own asyncio: an endpoint that greets and ends, and is joined only after it was read from."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"greeting")
        writer.close()

    loop = asyncio.get_running_loop()
    endpoint = await asyncio.start_server(greet, "127.0.0.1", 0)

    async def lead(client: str) -> ForwardingSide:
        transport, side = await loop.create_connection(ForwardingSide, *endpoint.sockets[0].getsockname())

        async def read() -> bool:
            return not transport.is_reading()

        await eventually(read)
        return side

    tasks: set[asyncio.Task[None]] = set()
    service = await loop.create_server(lambda: ClientSide(lead, tasks, _ignored, _ignored), "127.0.0.1", 0)
    async with endpoint, service, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*service.sockets[0].getsockname())
        assert await reader.read() == b"greeting"
        writer.close()
