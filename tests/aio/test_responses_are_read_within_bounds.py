"""HTTP responses of anybody: the same in any pieces, and never more work than was agreed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from pilothouse.aio.http_response import MalformedResponse, TruncatedResponse, read_response

HEAD = 16 * 1024
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


class Sent:
    """What a peer sends, a piece for each read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""
        self.taken = 0

    async def read(self, n: int, /) -> bytes:
        data = self._rest or next(self._pieces, b"")
        data, self._rest = data[:n], data[n:]
        self.taken += len(data)
        return data


SOUND = {
    "by length": _OK + b"Content-Length: 5\r\n\r\nhello",
    "the same length twice": _OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "behind its end there is more": _OK + b"Content-Length: 5\r\n\r\nhello, you",
    "by the end of the connection": _OK + b"\r\nhello",
    "in chunks": _OK + _CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
    "in chunks, with a trailer": _OK + _CHUNKED + b"5\r\nhello\r\n0\r\nA: b\r\n\r\n",
    "without carriage returns": b"HTTP/1.0 200 OK\nContent-Length: 5\n\nhello",
    "a header over two lines": _OK + b"X: a\r\n  b\r\nContent-Length: 5\r\n\r\nhello",
    "without a phrase": b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
    "after some interim ones": b"HTTP/1.1 100 Continue\r\n\r\n" * 5 + _OK + b"Content-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("size", [1, 7, 10**6])
async def test_pieces_make_no_difference(name: str, size: int) -> None:
    data = SOUND[name]
    sent = Sent(data[at : at + size] for at in range(0, len(data), size))
    response = await read_response(sent, max_head=HEAD)
    assert response.status == 200
    assert await response.read(100) == b"hello"


async def test_a_body_that_can_not_be_is_none() -> None:
    for status in (b"204 No Content", b"304 Not Modified"):
        response = await read_response(
            Sent([b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n"]), max_head=HEAD
        )
        assert await response.read(100) == b""


async def test_what_comes_behind_a_switch_of_protocols_is_kept() -> None:
    response = await read_response(Sent([b"HTTP/1.1 101 Switching\r\nA: b\r\n\r\n\x82\x01x"]), max_head=HEAD)
    assert (response.status, response.header("a"), response.rest) == (101, "b", b"\x82\x01x")


BROKEN = {
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "no status": b"HTTP/1.1 abc OK\r\n\r\n",
    "an empty line first": b"\r\n\r\n",
    "two lengths": _OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length that is none": _OK + b"Content-Length: -5\r\n\r\nhello",
    "a length without end": _OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "a header without a colon": _OK + b"hello\r\n\r\n",
    "a header without a name": _OK + b": hello\r\n\r\n",
    "another coding": _OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "a chunk without a length": _OK + _CHUNKED + b"x\r\n",
    "a chunk of a negative length": _OK + _CHUNKED + b"-1\r\n",
    "a chunk that is longer than it says": _OK + _CHUNKED + b"2\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_malformed_is_refused(name: str) -> None:
    with pytest.raises(MalformedResponse):
        await (await read_response(Sent([BROKEN[name]]), max_head=HEAD)).read(100)


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 2", _OK + b"Content-Length: 5\r\n\r\nhell", _OK + _CHUNKED + b"5\r\nhello\r\n"]
)
async def test_what_breaks_off_is_not_taken_for_whole(data: bytes) -> None:
    with pytest.raises(TruncatedResponse):
        await (await read_response(Sent([data]), max_head=HEAD)).read(100)


def forever(first: bytes, then: bytes) -> Callable[[], Iterable[bytes]]:
    def pieces() -> Iterable[bytes]:
        if first:
            yield first
        # Much more than may be taken, and an end all the same: what takes all of it fails, and does not hang.
        for _ in range(1000):
            yield then * (4096 // len(then))

    return pieces


ENDLESS = {
    "interim responses": forever(b"", b"HTTP/1.1 100 C\r\n\r\n"),
    "large interim responses": forever(b"", b"HTTP/1.1 103 C\r\nLink: " + b"x" * 4000 + b"\r\n\r\n"),
    "headers": forever(_OK, b"a:b\r\n"),
    "a status line": forever(b"HTTP/1.1 200 ", b"x"),
    "a header": forever(_OK + b"a: ", b"x"),
    "a chunk's length": forever(_OK + _CHUNKED, b"0"),
    "a chunk's extension": forever(_OK + _CHUNKED + b"1;", b"x"),
    "a trailer": forever(_OK + _CHUNKED + b"0\r\n", b"a: b\r\n"),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_what_has_no_end_is_given_up_soon(name: str) -> None:
    sent = Sent(ENDLESS[name]())
    with pytest.raises(MalformedResponse):
        await (await read_response(sent, max_head=HEAD)).read(100)
    assert sent.taken < 4 * HEAD


@pytest.mark.parametrize(
    "head", [_OK + b"\r\n", _OK + b"Content-Length: 99999999999\r\n\r\n", _OK + _CHUNKED + b"ffffffff\r\n"]
)
async def test_no_more_of_a_body_is_read_than_was_asked_for(head: bytes) -> None:
    sent = Sent(forever(head, b"x")())
    response = await read_response(sent, max_head=HEAD)
    assert await response.read(10_000) == b"x" * 10_000
    assert sent.taken < 4 * HEAD
