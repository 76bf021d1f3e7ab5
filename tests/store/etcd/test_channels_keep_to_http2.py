"""A channel against a server that uses what HTTP/2 allows: small windows, few streams, resets, farewells, rubbish."""

from __future__ import annotations

import asyncio

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from tests.store.etcd.peer import BLOCK, Peer

from pilothouse.store.etcd import http2_frames
from pilothouse.store.etcd.channel import Channel
from pilothouse.store.etcd.grpc_messages import enveloped
from pilothouse.store.etcd.grpc_status import CallFailed
from pilothouse.store.etcd.http2_streams import BidiStream


def soon(seconds: float = 30) -> float:
    return asyncio.get_running_loop().time() + seconds


async def failing(call: asyncio.Task[bytes]) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        await call
    return caught.value


async def test_calls_are_answered_each_with_its_own() -> None:
    async with Peer.listening() as peer:
        channel = await peer.connect()
        answers = await asyncio.gather(*(channel.call(BLOCK, b"%d" % n, soon()) for n in range(200)))
        assert answers == [b"%d" % n for n in range(200)]
        channel.close()


async def test_a_long_request_waits_for_windows() -> None:
    async with Peer.listening({SettingCodes.INITIAL_WINDOW_SIZE: 1000}) as peer:
        channel = await peer.connect()
        messages = [bytes([n]) * 150_000 for n in range(4)]
        assert await asyncio.gather(*(channel.call(BLOCK, m, soon()) for m in messages)) == messages
        channel.close()


async def test_a_request_that_no_window_allows_ends_at_its_deadline() -> None:
    async with Peer.listening() as peer:
        peer.takes = False
        channel = await peer.connect()
        failed = await failing(asyncio.create_task(channel.call(BLOCK, bytes(200_000), soon(0.2))))
        assert failed.code == "DEADLINE_EXCEEDED"
        await peer.until(lambda: peer.reset == [1])
        channel.close()


async def test_frames_are_no_longer_than_the_server_takes() -> None:
    async with Peer.listening({SettingCodes.MAX_FRAME_SIZE: 30_000}) as peer:
        channel = await peer.connect()
        assert await channel.call(BLOCK, bytes(60_000), soon()) == bytes(60_000)
        channel.close()


async def test_a_long_answer_is_granted_its_windows() -> None:
    async with Peer.listening() as peer:
        peer.answer = lambda message: message * 20_000_000
        channel = await peer.connect()
        assert await channel.call(BLOCK, b"x", soon()) == b"x" * 20_000_000
        channel.close()


async def test_no_more_streams_are_open_than_the_server_takes() -> None:
    async with Peer.listening({SettingCodes.MAX_CONCURRENT_STREAMS: 3}) as peer:
        channel = await peer.connect()
        answers = await asyncio.gather(*(channel.call(BLOCK, b"%d" % n, soon()) for n in range(20)))
        assert answers == [b"%d" % n for n in range(20)]
        assert peer.most_open <= 3
        channel.close()


async def test_a_call_that_waits_for_its_turn_in_vain_has_not_arrived() -> None:
    async with Peer.listening({SettingCodes.MAX_CONCURRENT_STREAMS: 1}) as peer:
        peer.answer = None
        channel = await peer.connect()
        first = asyncio.create_task(channel.call(BLOCK, b"1", soon(30)))
        await peer.until(lambda: 1 in peer.open)
        failed = await failing(asyncio.create_task(channel.call(BLOCK, b"2", soon(0.1))))
        assert (failed.code, failed.arrived) == ("DEADLINE_EXCEEDED", False)
        first.cancel()
        await peer.until(lambda: peer.reset == [1])
        channel.close()


async def test_an_answer_that_does_not_come_in_time() -> None:
    async with Peer.listening() as peer:
        peer.answer = None
        channel = await peer.connect()
        failed = await failing(asyncio.create_task(channel.call(BLOCK, b"1", soon(0.1))))
        assert (failed.code, failed.arrived) == ("DEADLINE_EXCEEDED", True)
        await peer.until(lambda: peer.reset == [1])
        peer.answer = lambda message: message
        assert await channel.call(BLOCK, b"2", soon()) == b"2"
        channel.close()


async def test_each_call_has_its_own_deadline() -> None:
    async with Peer.listening() as peer:
        peer.answer = None
        channel = await peer.connect()
        calls = [asyncio.create_task(channel.call(BLOCK, b"x", soon(s))) for s in (0.3, 0.1, 0.2)]
        ended: list[asyncio.Task[bytes]] = []
        for call in calls:
            call.add_done_callback(ended.append)
        await asyncio.gather(*calls, return_exceptions=True)
        assert ended == [calls[1], calls[2], calls[0]]
        channel.close()


@pytest.mark.parametrize(
    ("code", "arrived"),
    [(ErrorCodes.REFUSED_STREAM, False), (ErrorCodes.CANCEL, True), (ErrorCodes.INTERNAL_ERROR, True)],
)
async def test_a_reset_says_whether_the_call_may_have_been_carried_out(
    code: ErrorCodes, arrived: bool
) -> None:
    async with Peer.listening() as peer:
        peer.answer = None
        channel = await peer.connect()
        call = asyncio.create_task(channel.call(BLOCK, b"1", soon()))
        await peer.until(lambda: 1 in peer.open)
        peer.connection.reset_stream(1, code)
        peer.flush()
        failed = await failing(call)
        assert failed.arrived is arrived
        assert code.name in failed.details
        channel.close()


async def test_a_server_that_goes_away_finishes_what_it_has_begun() -> None:
    async with Peer.listening() as peer:
        peer.answer = None
        channel = await peer.connect()
        begun = asyncio.create_task(channel.call(BLOCK, b"1", soon()))
        late = asyncio.create_task(channel.call(BLOCK, b"2", soon()))
        await peer.until(lambda: 3 in peer.open)
        assert peer.transport is not None
        farewell = http2_frames.number(1) + http2_frames.number(http2_frames.NO_ERROR) + b"maintenance"
        peer.transport.write(http2_frames.frame(http2_frames.GOAWAY, 0, 0, farewell))
        failed = await failing(late)
        assert not failed.arrived
        assert "maintenance" in failed.details
        assert channel.retired
        peer.begin(1)
        peer.send(1, enveloped(b"done"))
        peer.flush()
        assert await begun == b"done"
        assert not (await failing(asyncio.create_task(channel.call(BLOCK, b"3", soon())))).arrived


async def test_a_lost_connection_ends_its_calls_in_doubt_and_later_ones_for_certain() -> None:
    async with Peer.listening() as peer:
        peer.answer = None
        channel = await peer.connect()
        call = asyncio.create_task(channel.call(BLOCK, b"1", soon()))
        await peer.until(lambda: 1 in peer.open)
        assert peer.transport is not None
        peer.transport.abort()
        assert (await failing(call)).arrived
        assert channel.retired
        assert not (await failing(asyncio.create_task(channel.call(BLOCK, b"2", soon())))).arrived


async def test_a_caller_that_gives_up_is_told_to_the_server() -> None:
    async with Peer.listening() as peer:
        peer.answer = None
        channel = await peer.connect()
        call = asyncio.create_task(channel.call(BLOCK, b"1", soon()))
        await peer.until(lambda: 1 in peer.open)
        call.cancel()
        await peer.until(lambda: peer.reset == [1])
        assert call.cancelled()
        channel.close()


async def test_pings_are_answered() -> None:
    async with Peer.listening() as peer:
        channel = await peer.connect()
        peer.connection.ping(b"are you?")
        peer.flush()
        await peer.until(lambda: peer.pongs == 1)
        channel.close()


async def test_a_slow_reader_holds_up_the_server_and_not_memory() -> None:
    async with Peer.listening() as peer:
        channel = await peer.connect()
        stream = channel.stream(BLOCK)
        stream.send(b"go")
        await peer.until(lambda: bool(peer.open.get(1)))
        messages = [bytes([n]) * 1_000_000 for n in range(20)]
        peer.begin(1)
        peer.send(1, b"".join(map(enveloped, messages)))
        peer.flush()
        first = await stream.receive()
        # The rest of the window may come, but no more of it is granted until something is read.
        await channel.call(BLOCK, b"another call is not held up", soon())
        assert peer.unsent(1) > 10_000_000
        assert first + await rest_of(stream) == messages
        channel.close()


async def rest_of(stream: BidiStream) -> list[bytes]:
    found: list[bytes] = []
    try:
        while True:
            found += await stream.receive()
    except CallFailed:
        return found


@pytest.mark.parametrize(
    "rubbish",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        http2_frames.frame(http2_frames.SETTINGS, 0, 0) + http2_frames.frame(http2_frames.DATA, 0, 0, b"x"),
        http2_frames.frame(http2_frames.SETTINGS, 0, 0)
        + http2_frames.frame(http2_frames.HEADERS, 4, 7, b"\x88"),
        http2_frames.frame(http2_frames.SETTINGS, 0, 0)
        + http2_frames.frame(http2_frames.WINDOW_UPDATE, 0, 0, bytes(4)),
        http2_frames.frame(http2_frames.SETTINGS, 0, 0)
        + http2_frames.frame(
            http2_frames.WINDOW_UPDATE, 0, 0, http2_frames.number(http2_frames.LARGEST_WINDOW)
        ),
        http2_frames.frame(http2_frames.SETTINGS, 0, 0)
        + http2_frames.frame(http2_frames.HEADERS, 5, 1, b"\xbe"),
    ],
)
async def test_who_does_not_keep_to_http2_is_left_with_a_clear_error(rubbish: bytes) -> None:
    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(rubbish)
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(misbehave, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def connect_and_call() -> bytes:
        channel = await Channel.connect("127.0.0.1", port, tls=None, patience=10)
        return await channel.call(BLOCK, b"1", soon())

    failed = await failing(asyncio.create_task(connect_and_call()))
    assert "does not keep to HTTP/2" in failed.details
    server.close()


async def test_a_server_that_says_nothing_is_no_server() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    with pytest.raises(TimeoutError):
        await Channel.connect("127.0.0.1", server.sockets[0].getsockname()[1], tls=None, patience=0.2)
    server.close()


class Line(asyncio.Transport):
    """A wire that leads nowhere, so that time can be virtual."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.looptime
async def test_a_connection_without_a_sign_of_life_is_given_up() -> None:
    channel, line = Channel(asyncio.get_running_loop()), Line()
    channel.connection_made(line)
    channel.data_received(http2_frames.frame(http2_frames.SETTINGS, 0, 0))
    call = asyncio.create_task(channel.call(BLOCK, b"1", soon(600)))
    failed = await failing(call)
    assert "no sign of life" in failed.details
    assert asyncio.get_running_loop().time() < 60
    assert http2_frames.frame(http2_frames.PING, 0, 0, bytes(8)) in line.sent
    assert line.aborted


@pytest.mark.looptime
async def test_a_connection_that_is_idle_or_answers_pings_stays() -> None:
    channel, line = Channel(asyncio.get_running_loop()), Line()
    channel.connection_made(line)
    channel.data_received(http2_frames.frame(http2_frames.SETTINGS, 0, 0))
    await asyncio.sleep(100)
    ping = http2_frames.frame(http2_frames.PING, 0, 0, bytes(8))
    assert ping not in line.sent
    call = asyncio.create_task(channel.call(BLOCK, b"1", soon(600)))
    for _ in range(20):
        await asyncio.sleep(4)
        channel.data_received(http2_frames.frame(http2_frames.PING, http2_frames.ACK, 0, bytes(8)))
    assert not line.aborted
    assert not call.done()
    channel.close()
    assert (await failing(call)).arrived
