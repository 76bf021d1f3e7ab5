from __future__ import annotations

import asyncio

from tests.apiserver.server.wire import Dial, Serve

from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.server.messages import Request, Response, StreamingResponse, StreamSink

POST = b"POST /a HTTP/1.1\r\nHost: x\r\n\r\n"
GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


class Slow:
    """Answers when told to."""

    def __init__(self) -> None:
        self.entered = asyncio.Semaphore(0)
        self.go = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        self.entered.release()
        await self.go.wait()
        return Response(200, b"{}")


async def test_one_too_many_is_told_to_come_back(serve: Serve, dial: Dial) -> None:
    slow = Slow()
    place = await serve(slow, shares=FlowController(reads=2, mutations=1))
    busy = [await dial(place) for _ in range(3)]
    for wire, raw in zip(busy, (GET, GET, POST), strict=True):
        wire.writer.write(raw)
        await slow.entered.acquire()
    for raw in (GET, POST):
        reply = await (await dial(place)).ask(raw)
        assert (reply.status, reply.json()["reason"], reply.header("Retry-After")) == (
            429,
            "TooManyRequests",
            "1",
        )
        assert reply.json()["details"]["retryAfterSeconds"] == 1
    slow.go.set()
    assert [(await wire.reply()).status for wire in busy] == [200, 200, 200]
    assert (await (await dial(place)).ask(GET)).status == 200


async def test_health_is_answered_all_the_same(serve: Serve, dial: Dial) -> None:
    slow = Slow()
    place = await serve(slow, shares=FlowController(reads=1))
    wire = await dial(place)
    wire.writer.write(GET)
    await slow.entered.acquire()
    assert (await (await dial(place)).get("/healthz")).body == b"ok"


async def test_a_stream_counts_only_until_it_has_started(serve: Serve, dial: Dial) -> None:
    async def endless(sink: StreamSink) -> None:
        await asyncio.Event().wait()

    async def handler(request: Request) -> StreamingResponse | Response:
        return StreamingResponse(endless) if request.path == "/watch" else Response(200, b"{}")

    place = await serve(handler, shares=FlowController(reads=1))
    for _ in range(5):
        wire = await dial(place)
        wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await wire.head()).status == 200
    assert (await (await dial(place)).ask(GET)).status == 200


async def test_a_stream_that_begins_with_a_list_counts_until_that_is_written(
    serve: Serve, dial: Dial
) -> None:
    begun = asyncio.get_running_loop().create_future()

    async def endless(sink: StreamSink) -> None:
        await asyncio.Event().wait()

    async def handler(request: Request) -> StreamingResponse | Response:
        return StreamingResponse(endless, begun=begun) if request.path == "/watch" else Response(200, b"{}")

    shares = FlowController(reads=1)
    place = await serve(handler, shares=shares)
    wire = await dial(place)
    wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await wire.head()).status == 200
    assert (await (await dial(place)).ask(GET)).status == 429
    begun.set_result(None)
    assert (await (await dial(place)).ask(GET)).status == 200
    # Nothing is given back twice.
    await wire.close()
    async with asyncio.timeout(20):
        while place.edge.connections > 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert {band.used for band in shares.reads.bands.values()} == {0}


async def test_zero_is_no_limit(serve: Serve, dial: Dial) -> None:
    slow = Slow()
    place = await serve(slow, shares=FlowController(reads=0))
    wires = [await dial(place) for _ in range(10)]
    for wire in wires:
        wire.writer.write(GET)
        await slow.entered.acquire()
    slow.go.set()
    assert [(await wire.reply()).status for wire in wires] == [200] * 10


async def test_a_request_ends_at_its_deadline(serve: Serve, dial: Dial) -> None:
    slow = Slow()
    wire = await dial(await serve(slow))
    reply = await wire.get("/a?timeout=100ms")
    assert (reply.status, reply.json()["reason"]) == (504, "Timeout")
    slow.go.set()
    assert (await wire.get("/a?timeout=10s")).status == 200


async def test_a_read_is_cancelled_when_its_client_leaves(serve: Serve, dial: Dial) -> None:
    gone = asyncio.Event()
    entered = asyncio.Event()

    async def handler(request: Request) -> Response:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return Response(200, b"{}")

    wire = await dial(await serve(handler))
    wire.writer.write(GET)
    await entered.wait()
    await wire.close()
    async with asyncio.timeout(20):
        await gone.wait()


async def test_a_write_is_carried_through_when_its_client_leaves(serve: Serve, dial: Dial) -> None:
    entered = asyncio.Event()
    go = asyncio.Event()
    done = asyncio.Event()

    async def handler(request: Request) -> Response:
        if request.method == "POST":
            entered.set()
            await go.wait()
            done.set()
        return Response(200, b"{}")

    place = await serve(handler)
    wire = await dial(place)
    wire.writer.write(POST)
    await entered.wait()
    await wire.close()
    # A later connection's answer shows that the server has seen the first one's end.
    assert (await (await dial(place)).ask(GET)).status == 200
    go.set()
    async with asyncio.timeout(20):
        await done.wait()
