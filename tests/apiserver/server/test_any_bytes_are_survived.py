"""Bytes that no client would send, over TLS: each gets a 4xx or a closed connection, and the server lives on."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.https_server import HTTPSServer, tls_context
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.pki.keyring import Keyring


async def echo(request: Request) -> Response:
    """Uses all of a request, as the core would: what is no text would break here."""
    request.params()
    text = "".join([request.method, request.path, request.query, *request.headers, *request.headers.values()])
    return Response(200, text.encode() + request.body)


class Served:
    """An edge in a thread of its own, for tests that are not coroutines."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait(30)
        self.context = ssl.create_default_context(cafile=keyring.authority_file)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        now = datetime.datetime.now(datetime.UTC)
        pair = self._keyring.serving(self._keyring.authority(now), ["127.0.0.1"], now)
        edge = HTTPSServer(
            echo,
            authenticator=Authenticator(),
            health=Health(),
            shares=FlowController(),
            requests=RequestCounters(KindCatalog()),
        )
        self.port = await edge.listen("127.0.0.1", 0, tls_context(pair.certificate, pair.key))
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._ready.set()
        await self._stop.wait()
        await edge.stop(1)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def drop(self, raw: bytes) -> None:
        """Send bytes and go away without waiting for an answer."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=20) as plain,
            self.context.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
            contextlib.suppress(ssl.SSLError, ConnectionError),
        ):
            tls.sendall(raw)

    def ask(self, raw: bytes) -> bytes:
        """The first bytes of what the server says; empty if it closes instead."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=20) as plain,
            self.context.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
        ):
            try:
                tls.sendall(raw)
                return tls.recv(65536)
            except (ssl.SSLError, ConnectionError):
                return b""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(Keyring(tmp_path_factory.mktemp("pki")))
    yield served
    served.close()


quick = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
visible = st.binary(max_size=60).map(
    lambda raw: raw.replace(b"\r", b"").replace(b"\n", b"").replace(b" ", b"_")
)
END = b"\r\n\r\n"


def check(served: Served, answer: bytes) -> None:
    assert answer == b"" or answer.split(b" ")[1][:1] in (b"2", b"4"), answer[:300]
    assert served.ask(b"GET /a HTTP/1.1\r\nHost: x" + END).startswith(b"HTTP/1.1 200 OK\r\n")


@quick
@given(raw=st.binary(max_size=200).filter(lambda raw: raw.strip(b"\r\n")))  # Empty lines are no request yet.
def test_garbage(served: Served, raw: bytes) -> None:
    served.drop(raw)
    check(served, served.ask(raw + END + END))


@quick
@given(target=visible)
def test_targets(served: Served, target: bytes) -> None:
    check(served, served.ask(b"GET /" + target + b" HTTP/1.1\r\nHost: x" + END))


@quick
@given(name=visible, value=visible)
def test_headers(served: Served, name: bytes, value: bytes) -> None:
    check(served, served.ask(b"GET /a HTTP/1.1\r\nHost: x\r\nA" + name + b": " + value + END))


@quick
@given(
    name=st.sampled_from(
        [
            b"Content-Length",
            b"Transfer-Encoding",
            b"Expect",
            b"Connection",
            b"Authorization",
            b"Audit-ID",
            b"Host",
        ]
    ),
    value=visible,
)
def test_headers_that_mean_something(served: Served, name: bytes, value: bytes) -> None:
    check(served, served.ask(b"GET /a?timeout=200ms HTTP/1.1\r\n" + name + b": " + value + END))


@quick
@given(body=st.binary(max_size=100))
def test_chunks(served: Served, body: bytes) -> None:
    head = b"POST /a?timeout=200ms HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked" + END
    check(served, served.ask(head + body))
