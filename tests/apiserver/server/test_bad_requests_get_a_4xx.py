"""Whatever bytes come in: a 4xx Status that says what is wrong, and a server that lives on."""

from __future__ import annotations

import pytest
from tests.apiserver.server.wire import Dial, Serve

from pilothouse.apiserver.server.messages import Request, Response

HOST = b" HTTP/1.1\r\nHost: x\r\n\r\n"


async def ok(request: Request) -> Response:
    return Response(200, b"{}")


CASES = {
    "not HTTP at all": b"\x00\x01\x02\x03\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "unknown version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "HTTP/2 without TLS's blessing": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "NUL in the path": b"GET /api/\x00" + HOST,
    "encoded NUL in the path": b"GET /api/v1/namespaces/a%00b" + HOST,
    "encoded newline in the path": b"GET /api/v1/namespaces/a%0d%0ab" + HOST,
    "half a percent encoding": b"GET /api/v1/namespaces/a%2" + HOST,
    "no hex after percent": b"GET /api/v1/namespaces/a%zz" + HOST,
    "percent encoding that is not UTF-8": b"GET /api/v1/namespaces/%ff%fe" + HOST,
    "path that is not UTF-8": b"GET /api/v1/namespaces/\xff\xfe" + HOST,
    "dot dot": b"GET /api/v1/namespaces/../../healthz" + HOST,
    "encoded dot dot": b"GET /api/v1/%2e%2e/secrets" + HOST,
    "encoded slashes round dot dot": b"GET /api/v1%2f..%2fsecrets" + HOST,
    "single dot": b"GET /api/./v1" + HOST,
    "relative target": b"GET api" + HOST,
    "asterisk": b"OPTIONS *" + HOST,
    "a proxy's absolute form": b"GET https://x/api" + HOST,
    "a host in the target": b"GET //x/api" + HOST,
    "backslash": b"GET /api\\v1" + HOST,
    "fragment": b"GET /api#x" + HOST,
    "HTTP/0.9": b"GET /api HTTP/0.9\r\n\r\n",
    "no version": b"GET /api\r\n\r\n",
    "HTTP/2.0": b"GET /api HTTP/2.0\r\nHost: x\r\n\r\n",
    "an empty line before": b"\r\nGET /api" + HOST,
    "connect": b"CONNECT example.org:443" + HOST,
    "header that is not UTF-8": b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: \xff\xfe\r\n\r\n",
    "header without a colon": b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n",
    "huge request line": b"GET /" + b"a" * 100_000 + HOST,
    "long path": b"GET /api/v1/namespaces/" + b"a" * 5000 + HOST,
    "long path once decoded": b"GET /api/v1/namespaces/a%2Db" + b"a" * 5000 + HOST,
    "huge header": b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 100_000 + b"\r\n\r\n",
    "a thousand headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
    "negative length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "length that is no number": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    "length with digits of another script": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ٣\r\n\r\n".encode(),
    "absurd length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown transfer encoding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: brotli\r\n\r\n",
    "bad chunk size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunk longer than it says": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n",
    "absurd chunk size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"f" * 40
    + b"\r\n",
    "bad timeout": b"GET /api?timeout=soon" + HOST,
    "negative timeout": b"GET /api?timeout=-5s" + HOST,
    "wrong token": b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n\r\n",
    "token that is not text": b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n",
    "write to health": b"POST /healthz" + HOST,
}


@pytest.mark.parametrize("case", CASES)
async def test_it_says_what_is_wrong(case: str, serve: Serve, dial: Dial) -> None:
    place = await serve(ok)
    reply = await (await dial(place)).ask(CASES[case])
    assert 400 <= reply.status < 500
    status = reply.json()
    assert (status["kind"], status["code"]) == ("Status", reply.status)
    assert status["message"]
    assert (await (await dial(place)).get("/api")).status == 200


async def test_headers_that_do_not_end_end_the_connection(serve: Serve, dial: Dial) -> None:
    place = await serve(ok)
    wire = await dial(place)
    wire.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
    # Fewer lines than are taken, none too long, but two megabytes of them.
    for number in range(40):
        wire.writer.write(b"X-%d: %b\r\n" % (number, b"y" * 60_000))
    assert b" 200 " not in await wire.rest()
    assert (await (await dial(place)).get("/api")).status == 200


async def test_long_headers_of_request_after_request_are_no_problem(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(ok))
    for _ in range(30):
        assert (await wire.get("/api", f"X: {'y' * 60_000}")).status == 200


async def test_a_body_that_breaks_off_ends_the_connection(serve: Serve, dial: Dial) -> None:
    place = await serve(ok)
    wire = await dial(place)
    wire.writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
    wire.writer.close()
    assert b" 200 " not in await wire.rest()
    assert (await (await dial(place)).get("/api")).status == 200


async def test_a_request_to_upgrade_is_answered_in_http_1_1(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(ok))
    raw = b"GET /api HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n"
    assert (await wire.ask(raw)).status == 200
    assert await wire.rest() == b""
