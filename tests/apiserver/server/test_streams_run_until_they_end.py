from __future__ import annotations

import asyncio

import pytest
from tests.apiserver.server.wire import Dial, Serve

from pilothouse.apiserver.server.messages import Request, Response, StreamChunk, StreamingResponse, StreamSink


async def ok(request: Request) -> Response:
    return Response(200, b"{}")


class Stream:
    """A stream that the test writes to, ends, and sees being cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.ending = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.sink: StreamSink

    async def handler(self, request: Request) -> StreamingResponse | Response:
        if request.path != "/watch":
            return Response(200, b"{}")
        return StreamingResponse(self._run, headers=(("X-Kind", "watch"),))

    async def _run(self, sink: StreamSink) -> None:
        self.sink = sink
        self.started.set()
        try:
            await self.ending.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def test_the_head_comes_before_anything_happens(serve: Serve, dial: Dial) -> None:
    stream = Stream()
    wire = await dial(await serve(stream.handler))
    wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await wire.head()
    assert head.status == 200
    assert head.header("Transfer-Encoding") == "chunked"
    assert head.header("Content-Length") is None
    assert head.header("X-Kind") == "watch"


async def test_chunks_go_out_as_they_are_written_and_the_connection_lives_on(
    serve: Serve, dial: Dial
) -> None:
    stream = Stream()
    wire = await dial(await serve(stream.handler))
    wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    await wire.head()
    await stream.started.wait()
    for text in (b'{"type":"ADDED"}\n', b'{"type":"DELETED"}\n'):
        stream.sink.write(StreamChunk.of(text))
        assert await wire.chunk() == text
    stream.ending.set()
    assert await wire.chunk() == b""
    assert (await wire.get("/other")).status == 200


async def test_a_client_that_leaves_cancels_the_stream(serve: Serve, dial: Dial) -> None:
    stream = Stream()
    wire = await dial(await serve(stream.handler))
    wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    await wire.head()
    await wire.close()
    async with asyncio.timeout(20):
        await stream.cancelled.wait()
    assert stream.sink.closed
    stream.sink.write(StreamChunk.of(b"into the void"))


async def test_what_the_client_does_not_take_is_counted(serve: Serve, dial: Dial) -> None:
    stream = Stream()
    wire = await dial(await serve(stream.handler))
    wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    await stream.started.wait()
    assert stream.sink.buffered() < 1024
    big = StreamChunk.of(bytes(1024 * 1024))
    for _ in range(64):
        stream.sink.write(big)
    assert stream.sink.buffered() > 1024 * 1024


async def test_http_1_0_gets_the_bytes_without_framing(serve: Serve, dial: Dial) -> None:
    stream = Stream()
    wire = await dial(await serve(stream.handler))
    wire.writer.write(b"GET /watch HTTP/1.0\r\n\r\n")
    assert (await wire.head()).header("Transfer-Encoding") is None
    await stream.started.wait()
    stream.sink.write(StreamChunk.of(b"one\n"))
    stream.ending.set()
    assert await wire.rest() == b"one\n"


async def test_head_of_a_stream_is_only_its_head(serve: Serve, dial: Dial) -> None:
    stream = Stream()
    wire = await dial(await serve(stream.handler))
    reply = await wire.get("/watch", method="HEAD")
    assert reply.status == 200
    assert await wire.rest() == b""


async def test_a_stream_that_breaks_cuts_the_connection(
    serve: Serve, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(sink: StreamSink) -> None:
        sink.write(StreamChunk.of(b"one\n"))
        raise ZeroDivisionError

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(broken)

    wire = await dial(await serve(handler))
    wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    assert not (await wire.rest()).endswith(b"0\r\n\r\n")
    assert "ZeroDivisionError" in caplog.text
