"""Answers in any number of pieces are read the same; what is not well-formed is refused; a connection serves one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.certificates import Authority

from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.http_parser import LONGEST_HEAD, AnswerReader, AnswerTooLong, MalformedAnswer
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.server_authorities import recognised
from pilothouse.client.transport import (
    BadAnswer,
    ClientRequest,
    ClientResponse,
    Interrupted,
    NotSent,
)

_packer = zlib.compressobj(wbits=31)
PACKED = _packer.compress(b"hello") + _packer.flush()

SOUND = {
    "by length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "without a phrase": b"HTTP/1.1 200\r\ncontent-length:5\r\n\r\nhello",
    "the same length twice": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
    "with a trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
    "after an interim one": (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    ),
    "packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(PACKED), PACKED),
}  # fmt: skip
BROKEN = {
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "no status": b"HTTP/1.1 abc OK\r\n\r\n",
    "interim answers without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 6,
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown transfer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a chunk of no length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a chunk that is too long": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n",
    "more than announced": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello",
    "a second answer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "a folded line": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "a line without a name": b"HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n",
    "no gzip after all": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    "packed otherwise": b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 5\r\n\r\nhello",
    "a head without end": b"HTTP/1.1 200 OK\r\nA: " + b"b" * LONGEST_HEAD,
}  # fmt: skip


def read(data: bytes, cuts: set[int]) -> ClientResponse | None:
    reading = AnswerReader(bodiless=False, longest=2**20)
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places) if start < end]
    for piece in pieces[:-1]:
        assert reading.feed(piece) is None
    return reading.feed(pieces[-1])


@given(st.sampled_from(sorted(SOUND)), st.sets(st.integers(1, 120)))
def test_pieces_make_no_difference(name: str, cuts: set[int]) -> None:
    answer = read(SOUND[name], cuts)
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"hello")


@pytest.mark.parametrize("name", BROKEN)
def test_nothing_is_guessed(name: str) -> None:
    with pytest.raises(MalformedAnswer):
        read(BROKEN[name], set())


def test_an_answer_may_end_with_its_connection() -> None:
    reading = AnswerReader(bodiless=False, longest=2**20)
    assert reading.feed(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhel") is None
    assert reading.feed(b"lo") is None
    answer = reading.closed()
    assert answer is not None
    assert (answer.body, reading.keeps) == (b"hello", False)


@pytest.mark.parametrize("name", ["by length", "in chunks"])
def test_one_that_is_cut_off_is_none(name: str) -> None:
    reading = AnswerReader(bodiless=False, longest=2**20)
    assert reading.feed(SOUND[name][:-3]) is None
    assert reading.closed() is None


@pytest.mark.parametrize("status", [204, 304])
def test_some_have_no_body(status: int) -> None:
    reading = AnswerReader(bodiless=False, longest=2**20)
    answer = reading.feed(f"HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n".encode())
    assert answer is not None
    assert (answer.body, reading.keeps) == (b"", True)


def packed(size: int) -> bytes:
    """So many bytes in few."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(bytes(2**20)) for _ in range(size // 2**20)), packer.flush()])


BOMB = packed(2**26)
ENDLESS = {
    "announced": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    "to the connection's end": b"HTTP/1.1 200 OK\r\n\r\n" + bytes(2**20 + 1),
    "a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
    "many chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"8000\r\n%b\r\n" % bytes(2**15) * 33,
    "packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(BOMB), BOMB),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_no_more_is_taken_than_may_be(name: str) -> None:
    reading = AnswerReader(bodiless=False, longest=2**20)
    tracemalloc.start()
    try:
        with pytest.raises(AnswerTooLong, match="more than 1048576 bytes"):
            reading.feed(ENDLESS[name])
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_a_trailer_and_a_length_have_an_end() -> None:
    for data in (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"b" * (LONGEST_HEAD + 1),
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n",
        SOUND["packed"].replace(b"Length: %d" % len(PACKED), b"Length: %d" % (len(PACKED) - 9))[:-9],
    ):
        with pytest.raises(MalformedAnswer):
            AnswerReader(bodiless=False, longest=2**20).feed(data)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking_to(folder: Path, serve: Serve) -> AsyncIterator[HttpTransport]:
    authority = Authority.create(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.server()
    context.load_cert_chain(pair.cert, pair.key)
    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    access = Access(url, authority=authority.cert.read_bytes())
    async with listening, HttpTransport.open(access, SystemClock(), agent="test") as transport:
        assert isinstance(transport, HttpTransport)
        yield transport


async def test_a_connection_is_used_again_unless_the_server_says_otherwise(tmp_path: Path) -> None:
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while head := await _head(reader):
            connections[-1] += 1
            close = b"Connection: close\r\n" if b"/last" in head else b""
            writer.write(b"HTTP/1.1 200 OK\r\n" + close + b"Content-Length: 2\r\n\r\n{}")
            if close:
                break
        writer.close()

    async with talking_to(tmp_path, serve) as transport:
        for path in ("/a", "/b", "/last", "/c"):
            assert (await transport.request(ClientRequest("GET", path))).body == b"{}"
    assert connections == [3, 1]


async def test_what_comes_unasked_is_nobodys_answer(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await _head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        if b"/first" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        await reader.read()
        writer.close()

    async with talking_to(tmp_path, serve) as transport:
        try:
            first = await transport.request(ClientRequest("GET", "/first"))
        except BadAnswer:
            pass  # Both came in one piece.
        else:
            assert first.body == b"{}"
        second = await _until_answered(transport, ClientRequest("GET", "/second"))
    assert second.body == b"{}"


async def test_whoever_gives_up_waiting_leaves_no_answer_for_the_next(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await _head(reader)
        asked.set()
        if b"/slow" in head:
            await reader.read()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async with talking_to(tmp_path, serve) as transport:
        waiting = asyncio.create_task(transport.request(ClientRequest("GET", "/slow")))
        await asked.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await transport.request(ClientRequest("GET", "/quick"))).body == b"{}"


async def test_one_who_does_not_speak_http_is_told_from_one_who_hangs_up(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await _head(reader)
        if b"/odd" in head:
            writer.write(b"220 mail.example.com ESMTP\r\n\r\n")
        writer.close()

    async with talking_to(tmp_path, serve) as transport:
        with pytest.raises(BadAnswer, match="is not HTTP"):
            await transport.request(ClientRequest("GET", "/odd"))
        with pytest.raises(Interrupted):
            await transport.request(ClientRequest("GET", "/silent"))


@pytest.mark.parametrize(
    "call",
    [
        ClientRequest("GET", "/a b"),
        ClientRequest("GET", "/a\r\nHost: evil"),
        ClientRequest("GET", "/a", headers={"X": "a\r\nAuthorization: evil"}),
        ClientRequest("GET", "/a", headers={"X\n": "a"}),
    ],
)
async def test_nothing_is_smuggled_into_a_request(tmp_path: Path, call: ClientRequest) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("it was sent")

    async with talking_to(tmp_path, serve) as transport:
        with pytest.raises(NotSent, match="can't be sent"):
            await transport.request(call)


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def _until_answered(transport: HttpTransport, call: ClientRequest) -> ClientResponse:
    """The connection that was spoilt may not be known to be so yet."""
    while True:
        try:
            return await transport.request(call)
        except Interrupted:
            continue


async def test_a_server_that_is_not_known_yet_fills_no_memory(tmp_path: Path) -> None:
    """Whoever answers a machine that wants to join: a few certificates are expected, and no more is read."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _head(reader)
        writer.write(ENDLESS["packed"])
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    async with talking_to(tmp_path, serve) as transport:
        with pytest.raises(BadAnswer, match="is too long: its body has more than 1048576 bytes"):
            await recognised([transport.url], ["0" * 64], SystemClock(), agent="test")
