"""What a client does not take stays where it is made, keeps its user's places, and ends with the connection."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator

import pytest
from tests.apiserver.server.wire import PATIENCE, Dial, Place, Serve, Wire

from pilothouse.apiserver.flowcontrol.fair_queuing import BYTES_PER_PLACE, FlowController
from pilothouse.apiserver.server.limits import ClientTimeouts
from pilothouse.apiserver.server.messages import (
    Answer,
    ChunkedBody,
    Request,
    Response,
    StreamChunk,
    StreamingResponse,
    StreamSink,
)
from pilothouse.apiserver.server.response_writer import PART
from pilothouse.apiserver.server.websockets import EventFrames, over_websocket, upgrade_of

LARGE = 32 * 1024 * 1024
SOON = ClientTimeouts(head=0.5, taking=0.5)
GET = b"GET /%b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret\r\n\r\n"
TOKENS = 's3cret,alice,42,"dev,ops"\nother,bob,43,\n'


class Lists:
    """Large answers of several sorts; ``made`` is how much of those in pieces there has been a need for."""

    def __init__(self) -> None:
        self.made = 0

    def _pieces(self) -> Iterator[bytes]:
        for _ in range(LARGE // PART):
            self.made += PART
            yield b"x" * PART

    async def __call__(self, request: Request) -> Answer:
        if request.path == "/whole":
            return Response(200, b"x" * LARGE)
        if request.path == "/pieces":
            return Response(200, ChunkedBody(self._pieces, LARGE))
        if request.path in ("/stream", "/patient"):
            return StreamingResponse(self._run, patient=request.path == "/patient")
        if request.path == "/websocket" and (upgrade := upgrade_of(request)):
            return over_websocket(StreamingResponse(self._run), upgrade, EventFrames())
        return Response(200, b"{}")

    async def _run(self, sink: StreamSink) -> None:
        while not sink.closed:
            sink.write(StreamChunk.of(b"x" * PART))
            while sink.buffered() > PART:  # noqa: ASYNC110 - a sink is looked at, not waited for
                await asyncio.sleep(0.01)
        await asyncio.Event().wait()


async def narrow(place: Place) -> Wire:
    """A connection that holds little of what it is sent."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", place.port))
    context = ssl.create_default_context(cafile=place.authority)
    return Wire(
        *await asyncio.open_connection(sock=plain, ssl=context, server_hostname="localhost", limit=1024)
    )


async def ended(wire: Wire) -> int:
    """How much comes until the connection ends, once it is read again; less than all."""
    received = 0
    async with asyncio.timeout(PATIENCE):
        try:
            while part := await wire.reader.read(65536):
                received += len(part)
        except (ConnectionError, ssl.SSLError):
            pass
    return received


async def free(shares: FlowController) -> None:
    """Wait until nobody has a place."""
    async with asyncio.timeout(PATIENCE):
        while any(band.used for band in shares.reads.bands.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("what", [b"whole", b"pieces", b"stream"])
async def test_a_client_that_takes_nothing(what: bytes, serve: Serve, dial: Dial) -> None:
    shares = FlowController()
    place = await serve(Lists(), shares=shares, patience=SOON)
    wire = await narrow(place)
    wire.writer.write(GET % what)
    assert (await wire.head()).status == 200
    await free(shares)
    # Its end is seen by a client that begins to read again.
    async with asyncio.timeout(PATIENCE):
        while place.edge.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await ended(wire) < LARGE
    assert (await (await dial(place)).get("/small")).status == 200


async def test_a_client_that_takes_nothing_of_a_websocket(serve: Serve) -> None:
    place = await serve(Lists(), patience=SOON)
    wire = await narrow(place)
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n"
    wire.writer.write((GET % b"websocket")[:-2] + upgrade % b64encode(b"k" * 16))
    assert (await wire.head()).status == 101
    async with asyncio.timeout(PATIENCE):
        while place.edge.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await ended(wire) < LARGE


async def test_what_is_not_taken_is_not_made(serve: Serve) -> None:
    lists = Lists()
    shares = FlowController()
    wire = await narrow(await serve(lists, shares=shares))
    wire.writer.write(GET % b"pieces")
    assert (await wire.head()).status == 200
    # The rest is made as it is read.
    assert lists.made < LARGE / 2
    body = b"".join([chunk async for chunk in wire.chunks()])
    assert (len(body), lists.made) == (LARGE, LARGE)
    await free(shares)


async def test_a_client_that_takes_its_time_gets_all_of_it(serve: Serve) -> None:
    wire = await narrow(await serve(Lists(), patience=ClientTimeouts(taking=5)))
    wire.writer.write(GET % b"whole")
    assert (await wire.head()).status == 200
    received = 0
    async with asyncio.timeout(PATIENCE):
        while received < LARGE:
            received += len(await wire.reader.read(65536))
            if not received % 64:
                await asyncio.sleep(0.001)
    assert received == LARGE


async def test_a_stream_that_waits_for_its_client_is_left_alone(serve: Serve) -> None:
    place = await serve(Lists(), patience=SOON)
    wire = await narrow(place)
    wire.writer.write(GET % b"patient")
    assert (await wire.head()).status == 200
    other = await narrow(place)
    other.writer.write(GET % b"stream")
    assert (await other.head()).status == 200
    # When the other one has been cut off, this one would have been too.
    async with asyncio.timeout(PATIENCE):
        while place.edge.connections > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await wire.chunk() == b"x" * PART


async def test_what_is_held_for_a_user_is_of_its_share(serve: Serve, dial: Dial) -> None:
    shares = FlowController(reads=100)
    place = await serve(Lists(), shares=shares, tokens=TOKENS)
    statuses = []
    wires = []
    for _ in range(8):
        wires.append(await narrow(place))
        wires[-1].writer.write(GET % b"whole")
        statuses.append((await wires[-1].head()).status)
    assert statuses[0] == 200
    assert statuses[-1] == 429
    used = sum(band.used for band in shares.reads.bands.values())
    assert used >= statuses.count(200) * min(LARGE // BYTES_PER_PLACE, 10)
    # Others do not feel it, nor is anything smaller refused for long.
    assert (await (await dial(place)).get("/small", "Authorization: Bearer other")).status == 200
    for wire in wires:
        await wire.close()
    await free(shares)
    assert (await (await dial(place)).get("/small", "Authorization: Bearer s3cret")).status == 200


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
async def test_a_head_that_does_not_end(sent: bytes, serve: Serve, dial: Dial) -> None:
    place = await serve(Lists(), patience=SOON)
    wire = await dial(place)
    assert (await wire.get("/small")).status == 200
    wire.writer.write(sent)
    reply = await wire.reply()
    assert (reply.status, reply.json()["reason"], reply.header("Connection")) == (408, "Timeout", "close")
    assert await wire.rest() == b""


async def test_a_head_that_comes_byte_by_byte(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(Lists(), patience=SOON))

    wire.writer.write(b"GET / HTTP/1.1\r\nX: ")
    trickling = asyncio.ensure_future(_trickle(wire))
    try:
        assert (await wire.reply()).status == 408
    finally:
        trickling.cancel()


async def _trickle(wire: Wire) -> None:
    while True:
        wire.writer.write(b"y")
        await asyncio.sleep(0.05)


async def test_a_connection_that_never_asks(serve: Serve, dial: Dial) -> None:
    place = await serve(Lists(), patience=ClientTimeouts(idle=0.3))
    silent, asking = await dial(place), await dial(place)
    assert (await asking.get("/small")).status == 200
    assert await silent.rest() == await asking.rest() == b""


async def test_pieces_for_a_client_that_knows_no_chunks(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(Lists()))
    wire.writer.write(b"GET /pieces HTTP/1.0\r\nHost: x\r\n\r\n")
    head = await wire.head()
    assert (head.header("Transfer-Encoding"), head.header("Connection")) == (None, "close")
    assert len(await wire.rest()) == LARGE


async def test_pieces_that_break(serve: Serve, dial: Dial) -> None:
    def broken() -> Iterator[bytes]:
        yield b"{"
        raise ValueError("no more")

    async def handler(request: Request) -> Response:
        return Response(200, ChunkedBody(broken, 10)) if request.path == "/broken" else Response(200, b"{}")

    place = await serve(handler)
    wire = await dial(place)
    wire.writer.write(GET % b"broken")
    assert (await wire.head()).status == 200
    # There is no last chunk, so nobody takes it for the whole.
    assert not (await wire.rest()).endswith(b"0\r\n\r\n")
    assert json.loads((await (await dial(place)).get("/small")).body) == {}
