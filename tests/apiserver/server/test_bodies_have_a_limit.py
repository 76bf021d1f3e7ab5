from __future__ import annotations

import pytest
from tests.apiserver.server.wire import Dial, Serve

from pilothouse.apiserver.server.limits import MAX_BODY
from pilothouse.apiserver.server.messages import Request, Response

ASK_FIRST = b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"


async def size(request: Request) -> Response:
    return Response(200, str(len(request.body)).encode())


async def test_the_largest_body_is_taken(serve: Serve, dial: Dial) -> None:
    reply = await (await dial(await serve(size))).get("/a", method="POST", body=bytes(MAX_BODY))
    assert (reply.status, reply.body) == (200, b"3145728")


async def test_one_byte_more_is_refused(serve: Serve, dial: Dial) -> None:
    place = await serve(size)
    reply = await (await dial(place)).get("/a", method="POST", body=bytes(MAX_BODY + 1))
    assert (reply.status, reply.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert "limit is 3145728" in reply.json()["message"]


async def test_a_body_announced_too_large_is_refused_before_it_is_sent(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(size))
    assert (await wire.ask(ASK_FIRST + b"Content-Length: 3145729\r\n\r\n")).status == 413


async def test_chunks_count_too(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(size))
    wire.writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(50):
        wire.writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
    assert (await wire.reply()).status == 413


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate"])
async def test_compressed_bodies_are_not_taken(encoding: str, serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(size))
    reply = await wire.get("/a", f"Content-Encoding: {encoding}", method="POST", body=b"\x1f\x8b")
    assert (reply.status, reply.json()["reason"]) == (415, "UnsupportedMediaType")
    assert encoding in reply.json()["message"]
    assert (await (await dial(await serve(size))).get("/a", method="POST", body=b"abc")).body == b"3"


@pytest.mark.parametrize("chunk", [b"zz\r\n", b"-1\r\n", b"3\r\nabcdef\r\n"])
async def test_bad_framing_in_the_middle_of_a_body_is_a_400(chunk: bytes, serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(size))
    assert (await wire.ask(ASK_FIRST + b"Transfer-Encoding: chunked\r\n\r\n")).status == 100
    reply = await wire.ask(chunk)
    assert (reply.status, reply.json()["reason"]) == (400, "BadRequest")


async def test_a_body_that_does_not_come_is_not_waited_for(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(size))
    reply = await wire.ask(b"POST /a?timeout=100ms HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
    assert (reply.status, reply.json()["kind"]) == (408, "Status")
