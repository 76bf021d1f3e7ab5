"""A request gets the same answer from a server that reads all of it by the parser alone, and from one that takes the short way
where it can and has been taught by whatever came before."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.apiserver.server.behind_an_edge import MAP, MAPS, TOKENS, serving
from tests.apiserver.server.wire import Place, Wire

from pilothouse.apiserver.authentication.authenticator import Authenticator, read_tokens
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.https_server import HTTPSServer, tls_context
from pilothouse.pki.keyring import Keyring

HEADERS = b"Host: localhost\r\nAuthorization: Bearer t-admin\r\n"
READ = b"GET %b HTTP/1.1\r\n%b\r\n" % (MAP.encode(), HEADERS)
BODY = b'{"data":{"k":"1"}}'
WRITTEN = HEADERS + b"Content-Type: application/merge-patch+json\r\nContent-Length: %d\r\n" % len(BODY)
WRITE = b"PATCH %b HTTP/1.1\r\n%b\r\n%b" % (MAP.encode(), WRITTEN, BODY)
CHUNKS = b"PATCH %b HTTP/1.1\r\n%bContent-Type: application/merge-patch+json\r\n" % (MAP.encode(), HEADERS)
BODY_IN_CHUNKS = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
FIRST, _, REST = READ.partition(b"\r\n")
FIRST_OF_WRITE, _, REST_OF_WRITE = WRITE.partition(b"\r\n")


def line(target: bytes, version: bytes = b" HTTP/1.1", method: bytes = b"GET ") -> bytes:
    """A read with another first line."""
    return method + target + version + b"\r\n" + REST


def added(*headers: bytes) -> bytes:
    """A read with more headers."""
    return FIRST + b"\r\n" + b"".join(headers) + REST


def chunked(body: bytes, encoding: bytes = b"Transfer-Encoding: chunked\r\n") -> bytes:
    return CHUNKS + encoding + b"\r\n" + body


END = b"DELETE /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
AS_IT_IS = MAP.encode()
REFUSED = {
    "an empty line before": b"\r\n" + READ,
    "a bare line feed before": b"\n" + READ,
    "three empty lines before": b"\r\n\r\n\r\n" + READ,
    "an empty line before a write": b"\r\n" + WRITE,
    "a second request line as a header": FIRST + b"\r\n" + READ,
    "a second request line as a header of a write": FIRST_OF_WRITE + b"\r\n" + WRITE,
    "a folded header": added(b"X: a\r\n b\r\n"),
    "a first header that is folded": added(b" X: a\r\n"),
    "bare line feeds": READ.replace(b"\r\n", b"\n"),
    "a bare line feed after the first line": READ.replace(b"\r\n", b"\n", 1),
    "a bare line feed at the end": READ[:-2] + b"\n",
    "a bare carriage return in a header": added(b"X: a\rb\r\n"),
    "a space before the colon": added(b"X : a\r\n"),
    "no name": added(b": a\r\n"),
    "no colon": added(b"X\r\n"),
    "NUL in a header": added(b"X: a\0b\r\n"),
    "a control character in a header": added(b"X: a\x01b\r\n"),
    "DEL in a header": added(b"X: a\x7fb\r\n"),
    "a name that is not ASCII": added("É: a\r\n".encode()),
    "two hosts": added(b"Host: other\r\n"),
    "no host": READ.replace(b"Host: localhost\r\n", b""),
    "two lengths that agree": WRITE.replace(b"Content-Length", b"Content-Length: 18\r\nContent-Length"),
    "two lengths that differ": WRITE.replace(b"Content-Length", b"Content-Length: 1\r\nContent-Length"),
    "a list of lengths": WRITE.replace(b"Content-Length: 18", b"Content-Length: 18, 18"),
    "a length with a sign": WRITE.replace(b"Content-Length: 18", b"Content-Length: +18"),
    "a length in hexadecimal": WRITE.replace(b"Content-Length: 18", b"Content-Length: 0x12"),
    "a length without digits": WRITE.replace(b"Content-Length: 18", b"Content-Length:"),
    "a length and chunks": WRITE.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length"),
    "chunks that are not last": chunked(BODY_IN_CHUNKS + b"\r\n", b"Transfer-Encoding: chunked, gzip\r\n"),
    "chunks twice": chunked(BODY_IN_CHUNKS + b"\r\n", b"Transfer-Encoding: chunked\r\n" * 2),
    "an unknown transfer encoding": chunked(BODY_IN_CHUNKS + b"\r\n", b"Transfer-Encoding: xchunked\r\n"),
    "a transfer encoding called identity": chunked(b"", b"Transfer-Encoding: identity\r\n"),
    "chunks that end in line feeds": chunked(BODY_IN_CHUNKS.replace(b"\r\n", b"\n") + b"\n"),
    "a chunk's size with a sign": chunked(b"+" + BODY_IN_CHUNKS + b"\r\n"),
    "the absolute form": line(b"https://localhost" + AS_IT_IS),
    "the authority form": line(b"localhost:443"),
    "an asterisk": line(b"*"),
    "no target": line(b""),
    "two slashes at the beginning": line(b"/" + AS_IT_IS),
    "a backslash at the beginning": line(b"\\" + AS_IT_IS),
    "a backslash in the path": line(AS_IT_IS.replace(b"/a", b"\\a")),
    "a fragment": line(AS_IT_IS + b"#x"),
    "a fragment after the query": line(AS_IT_IS + b"?x=1#y"),
    "a space in the target": line(AS_IT_IS + b" b"),
    "a tab in the target": line(AS_IT_IS + b"\tb"),
    "an encoded NUL": line(AS_IT_IS + b"%00"),
    "half a percent encoding": line(AS_IT_IS + b"%2"),
    "bytes that are not UTF-8": line(AS_IT_IS + b"\xff"),
    "dot dot": line(AS_IT_IS + b"/../a"),
    "encoded dot dot": line(AS_IT_IS + b"/%2e%2e/a"),
    "no version": line(AS_IT_IS, b""),
    "HTTP/0.9": line(AS_IT_IS, b" HTTP/0.9"),
    "HTTP/1.2": line(AS_IT_IS, b" HTTP/1.2"),
    "HTTP/2.0": line(AS_IT_IS, b" HTTP/2.0"),
    "a version in small letters": line(AS_IT_IS, b" http/1.1"),
    "a space after the version": line(AS_IT_IS, b" HTTP/1.1 "),
    "a method in small letters": line(AS_IT_IS, method=b"get "),
    "a method in small letters, with a body": WRITE.replace(b"PATCH", b"patch", 1),
    "an unknown method": line(AS_IT_IS, method=b"FETCH "),
    "a tab after the method": line(AS_IT_IS, method=b"GET\t"),
    "connect": line(b"localhost:443", method=b"CONNECT "),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
TOO_LONG = {
    "a long header": added(b"X: " + b"y" * 70_000 + b"\r\n"),
    "a long target": line(AS_IT_IS + b"?" + b"x" * 70_000),
    "many headers": added(b"X: y\r\n" * 300),
}
ACCEPTED = {
    "a read": READ,
    "a write": WRITE,
    "HTTP/1.0": line(AS_IT_IS, b" HTTP/1.0"),
    "two spaces before the target": line(b" " + AS_IT_IS),
    "two spaces before the version": line(AS_IT_IS, b"  HTTP/1.1"),
    "an encoded letter": line(AS_IT_IS.replace(b"/a", b"/%61")),
    "an encoded slash": line(AS_IT_IS.replace(b"/configmaps", b"%2fconfigmaps")),
    "a slash at the end": line(AS_IT_IS + b"/"),
    "two slashes inside": line(AS_IT_IS.replace(b"/configmaps", b"//configmaps")),
    "a question mark alone": line(AS_IT_IS + b"?"),
    "names of other case": READ.replace(b"Host", b"hOST"),
    "no space after a colon": READ.replace(b"Host: ", b"Host:"),
    "spaces round a value": READ.replace(b"localhost", b"  localhost \t"),
    "the same header twice": added(b"X: a\r\nX: b\r\n"),
    "two reads": READ + READ,
    "a read and a write": READ + WRITE,
    "a read and half of another": READ + READ[:20],
    "an end": added(b"Connection: close\r\n"),
    "an expectation": WRITE.replace(b"Content-Length", b"Expect: 100-continue\r\nContent-Length"),
    "another expectation": WRITE.replace(b"Content-Length", b"Expect: 200-ok\r\nContent-Length"),
    "a read with a body": READ.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\nabc"),
    "an upgrade": added(b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    "a body in chunks": chunked(BODY_IN_CHUNKS + b"\r\n"),
    "a body in chunks with a trailer": chunked(BODY_IN_CHUNKS + b"X: y\r\n\r\n"),
    "a length in a trailer": chunked(BODY_IN_CHUNKS + b"Content-Length: 5\r\n\r\n"),
    "a compressed body": WRITE.replace(b"Content-Length", b"Content-Encoding: gzip\r\nContent-Length"),
    "a header that is no text": added(b"X: \xff\r\n"),
    "a header that is text": added("X: é\r\n".encode()),
}


class Seen(NamedTuple):
    """What a client sees of an answer, but for what differs each time."""

    status: int
    body: bytes
    closed: bool


class Pair:
    """One core behind two edges, in a thread of its own for tests that are no coroutines."""

    def __init__(self, keyring: Keyring, folder: Path) -> None:
        self._started = threading.Event()
        self._keyring, self._folder = keyring, folder
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._started.wait(60)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with serving(self._keyring, self._folder) as server:
            self._short = server.place
            health = Health()
            edge = HTTPSServer(
                server.handle,
                authenticator=Authenticator(read_tokens(TOKENS, "tokens.csv")),
                health=health,
                shares=FlowController(),
                requests=RequestCounters(server.core.catalog),
                check_head=server.core.check_head,
            )
            now = datetime.datetime.now(datetime.UTC)
            pair = self._keyring.serving(self._keyring.authority(now), ["localhost", "127.0.0.1"], now)
            port = await edge.listen("127.0.0.1", 0, tls_context(pair.certificate, pair.key))
            self._parser = Place(port, self._keyring.authority_file, edge, health)
            self._started.set()
            await self._stop.wait()
            await edge.stop(0.0)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def seen(self, raw: bytes) -> tuple[list[Seen], list[list[Seen]]]:
        """What the parser alone answers, and what the other one does each time it is asked."""
        return asyncio.run_coroutine_threadsafe(self._ask_both(raw), self._loop).result(120)

    async def _ask_both(self, raw: bytes) -> tuple[list[Seen], list[list[Seen]]]:
        alone = await _ask(self._parser, raw)
        # First as it comes, then by clients whose headers are known, then with a bad request having been seen before.
        short = [
            await _ask(self._short, raw),
            await _ask(self._short, raw, READ, READ, WRITE, WRITE),
            await _ask(self._short, raw, READ),
        ]
        return alone, short


async def _ask(place: Place, raw: bytes, *before: bytes) -> list[Seen]:
    """The answers to what is sent at last."""
    wire = await Wire.open(place)
    try:
        for each in before:
            assert (await wire.ask(each)).status == 200
        wire.writer.write(raw)
        # It has to arrive by itself to be taken the short way; what is answered has. What is no whole request never is.
        received = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                received = await wire.reader.read(65536)
        # A request that ends the connection, so that all answers before it have come when it does.
        wire.writer.write(END)
        return list(_answers(received + await wire.rest()))
    finally:
        await wire.close()


HEAD = re.compile(rb"HTTP/1\.1 (\d+) [^\r]*\r\n(.*?)\r\n\r\n", re.DOTALL)


def _answers(received: bytes) -> Iterator[Seen]:
    at = 0
    while found := HEAD.match(received, at):
        length = re.search(rb"Content-Length: (\d+)", found[2])
        at = found.end() + (int(length[1]) if length else 0)
        body = re.sub(rb'"resourceVersion":"\d+"', b"", received[found.end() : at])
        body = re.sub(rb'"time":"[^"]*"', b"", body)
        yield Seen(int(found[1]), body, b"Connection: close" in found[2])
    assert at == len(received), received[at:]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(Keyring(tmp_path_factory.mktemp("pki")), tmp_path_factory.mktemp("audit"))
    with contextlib.closing(made):
        yield made


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_valid_is_refused_by_both(case: str, pair: Pair) -> None:
    alone, short = pair.seen(REFUSED[case])
    assert short == [alone] * 3
    assert alone[0].status == 400
    assert b'"kind":"Status"' in alone[0].body


@pytest.mark.parametrize("case", TOO_LONG)
def test_what_is_too_long_is_refused_by_both(case: str, pair: Pair) -> None:
    alone, short = pair.seen(TOO_LONG[case])
    assert short == [alone] * 3
    assert alone[0].status in (400, 431)


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_is_valid_is_read_alike(case: str, pair: Pair) -> None:
    alone, short = pair.seen(ACCEPTED[case])
    assert short == [alone] * 3


def test_headers_after_an_empty_line_are_not_learnt(pair: Pair) -> None:
    teaching = b"\r\n" + READ
    for _ in range(3):
        pair.seen(teaching)
    alone, short = pair.seen(b"GET %b HTTP/1.1\r\n%b" % (f"{MAPS}/b".encode(), READ))
    assert short == [alone] * 3
    assert alone[0].status == 400


SPLICES = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\x7f", b"\xff", b"/", b"//", b"\\", b"%", b"%2f", b"%00", b"#", b"?", b"&", b"=",
    b"GET ", b" HTTP/1.1", b" HTTP/1.0", b"X: y\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: y\r\n",
    READ, FIRST + b"\r\n", b"\r\n\r\n", b"a",
)  # fmt: skip


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A valid request, with a few things put in, taken out or doubled."""
    raw = draw(st.sampled_from((READ, WRITE, READ + WRITE)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(raw)))
        # Most of what matters is round the ends of lines.
        if ends := [found.start() for found in re.finditer(rb"\r\n| ", raw)]:
            at = draw(st.sampled_from((at, draw(st.sampled_from(ends)))))
        cut = draw(st.integers(0, 3))
        raw = raw[:at] + draw(st.sampled_from(SPLICES)) + raw[at + cut :]
    return raw


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(raw=mangled())
def test_what_is_mangled_is_read_alike(raw: bytes, pair: Pair) -> None:
    alone, short = pair.seen(raw)
    assert short == [alone] * 3
