"""What is followed beside the parser must agree with it, however a client cuts what it sends."""

from __future__ import annotations

import asyncio

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.apiserver.server.request_boundaries import RequestBoundary

BODIES = st.binary(max_size=40) | st.just(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    match draw(st.sampled_from(("read", "read", "write", "chunked"))):
        case "read":
            extra = draw(st.sampled_from((b"", b"X: 1\r\n", b"Content-Length: 0\r\n")))
            return b"GET /a HTTP/1.1\r\nHost: x\r\n" + extra + b"\r\n"
        case "write":
            body = draw(BODIES)
            return b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    body = draw(BODIES)
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n"


def parser(loop: asyncio.AbstractEventLoop) -> HttpRequestParser:
    return HttpRequestParser(BaseProtocol(loop), loop, 2**16)


@given(st.lists(requests(), min_size=1, max_size=6), st.data())
def test_clear_means_between_two_requests(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(sent)
    ends = {0}
    for request in sent:
        ends.add(max(ends) + len(request))
    # Most clients send request by request; some cut anywhere.
    cuts = data.draw(st.sets(st.sampled_from(sorted(ends)) | st.integers(0, len(stream)), max_size=12))
    loop = asyncio.new_event_loop()
    try:
        read, boundary, at = parser(loop), RequestBoundary(), 0
        for cut in [*sorted(cuts - {0}), len(stream)]:
            if cut > at:
                piece, at = stream[at:cut], cut
                boundary.follow(piece, [message for message, _ in read.feed_data(piece)[0]])
                assert not boundary.clear or at in ends
    finally:
        loop.close()


@given(st.lists(requests().filter(lambda sent: b"chunked" not in sent), min_size=1, max_size=6))
def test_a_client_that_sends_request_by_request_is_followed(sent: list[bytes]) -> None:
    loop = asyncio.new_event_loop()
    try:
        read, boundary = parser(loop), RequestBoundary()
        for request in sent:
            boundary.follow(request, [message for message, _ in read.feed_data(request)[0]])
            assert boundary.clear
    finally:
        loop.close()


def test_a_head_in_pieces_is_not_followed() -> None:
    boundary = RequestBoundary()
    boundary.follow(b"GET /a HTTP/1.1\r\nX: ", [])
    assert not boundary.clear


def test_what_is_no_request_is_not_followed() -> None:
    boundary = RequestBoundary()
    boundary.follow(b"GARBAGE\r\n\r\n", [None])
    assert not boundary.clear
