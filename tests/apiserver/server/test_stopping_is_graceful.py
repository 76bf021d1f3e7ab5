from __future__ import annotations

import asyncio

from tests.apiserver.server.wire import Dial, Serve

from pilothouse.apiserver.server.messages import Request, Response, StreamChunk, StreamingResponse, StreamSink


async def ok(request: Request) -> Response:
    return Response(200, b"{}")


async def test_what_is_in_flight_gets_its_answer(serve: Serve, dial: Dial) -> None:
    entered = asyncio.Event()
    go = asyncio.Event()

    async def handler(request: Request) -> Response:
        entered.set()
        await go.wait()
        return Response(200, b"{}")

    place = await serve(handler)
    wire = await dial(place)
    wire.writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\n\r\n")
    await entered.wait()
    stopping = asyncio.create_task(place.edge.stop(20))
    await asyncio.sleep(0)
    go.set()
    reply = await wire.reply()
    assert (reply.status, reply.header("Connection")) == (200, "close")
    assert await wire.rest() == b""
    await stopping


async def test_streams_end_properly(serve: Serve, dial: Dial) -> None:
    async def endless(sink: StreamSink) -> None:
        await asyncio.Event().wait()

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(endless)

    place = await serve(handler)
    wire = await dial(place)
    wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    await wire.head()
    await place.edge.stop(20)
    assert await wire.rest() == b"0\r\n\r\n"


async def test_streams_with_an_end_of_their_own_reach_it(serve: Serve, dial: Dial) -> None:
    go = asyncio.Event()

    async def backup(sink: StreamSink) -> None:
        await go.wait()
        sink.write(StreamChunk.of(b"all"))

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(backup, ends=True)

    place = await serve(handler)
    wire = await dial(place)
    wire.writer.write(b"GET /backup HTTP/1.1\r\nHost: x\r\n\r\n")
    await wire.head()
    stopping = asyncio.create_task(place.edge.stop(20))
    await asyncio.sleep(0)
    go.set()
    assert await wire.rest() == b"3\r\nall\r\n0\r\n\r\n"
    await stopping


async def test_idle_connections_are_closed(serve: Serve, dial: Dial) -> None:
    place = await serve(ok)
    wire = await dial(place)
    assert (await wire.get("/a")).status == 200
    await place.edge.stop(20)
    assert await wire.rest() == b""


async def test_what_takes_too_long_is_cut_off(serve: Serve, dial: Dial) -> None:
    entered = asyncio.Event()

    async def handler(request: Request) -> Response:
        entered.set()
        await asyncio.Event().wait()
        return Response(200, b"{}")

    place = await serve(handler)
    wire = await dial(place)
    wire.writer.write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    await entered.wait()
    await place.edge.stop(0.05)
    assert await wire.rest() == b""


async def test_readiness_goes_first(serve: Serve, dial: Dial) -> None:
    place = await serve(ok)
    wire = await dial(place)
    assert (await wire.get("/readyz")).status == 200
    place.health.drain()
    reply = await wire.get("/readyz")
    assert (reply.status, b"[-]shutdown failed" in reply.body) == (500, True)
    assert (await wire.get("/livez")).status == 200
