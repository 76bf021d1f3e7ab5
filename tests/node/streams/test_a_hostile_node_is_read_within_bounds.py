"""Nodes that answer the API server's calls with anything but an answer, and answers that are the client's as they are."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.certificates import Authority
from tests.kit.kubectl import Kubectl, newest
from tests.kit.stream_node import NAME, Plane, StreamNode
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Node
from pilothouse.apiserver.registry.node_addresses import NodeEndpoint
from pilothouse.apiserver.registry.node_client import HTTPSNodeClient
from pilothouse.apiserver.server.messages import Response, StreamChunk, StreamingResponse, UpgradedResponse
from pilothouse.base.clock import SystemClock
from pilothouse.meta.errors import StatusError
from pilothouse.node.server.serving_certificate import ServingCertificate
from pilothouse.pki.signers import serving_name

ENOUGH = 25.0
"""Seconds, less than the API server waits for a node."""
MANY = 16 * 2**20
"""Bytes that are in flight between two ends on a loopback at most."""


class HostileNode:
    """It has its certificate, and answers each call with a beginning and then the same over and over."""

    def __init__(self, authority: Authority) -> None:
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issuer.issue_cert(serving_name("evil")).configure_cert(self._server)
        self._client = ssl.create_default_context(cafile=str(authority.cert))
        self.calls = HTTPSNodeClient(lambda: self._client)
        self.sent = 0
        self.gone = asyncio.Event()

    @contextlib.asynccontextmanager
    async def answering(self, first: bytes, then: bytes = b"") -> AsyncIterator[NodeEndpoint]:
        self.sent = 0
        self.gone.clear()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(first)
                piece = then * (65536 // max(1, len(then)))
                while piece and self.sent < 64 * MANY:
                    writer.write(piece)
                    await writer.drain()
                    self.sent += len(piece)
            writer.close()
            self.gone.set()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=self._server)
        async with server, asyncio.timeout(ENOUGH):
            yield NodeEndpoint("evil", "127.0.0.1", server.sockets[0].getsockname()[1])


@pytest.fixture
def evil(tmp_path: Path) -> HostileNode:
    return HostileNode(Authority.create(tmp_path))


class Taker:
    """The open end of a stream whose client takes nothing once it has ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self.data = b""
        self._most = most
        self.closed = False

    def write(self, chunk: StreamChunk) -> None:
        self.data += chunk.data

    def buffered(self) -> int:
        return max(0, len(self.data) - self._most)


ENDLESS = {
    "interim responses": (b"", b"HTTP/1.1 100 C\r\n\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
    "nothing of HTTP": (b"", b"\0"),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("upgrades", [False, True])
async def test_an_answer_that_never_begins_is_given_up_soon(
    evil: HostileNode, name: str, upgrades: bool
) -> None:
    async with evil.answering(*ENDLESS[name]) as node:
        call = evil.calls.connect(node, "/exec/t/p/c", [], {}) if upgrades else None
        with pytest.raises(StatusError) as refused:
            await (call or evil.calls.read(node, "/metrics", [], ends=True))
        assert refused.value.code == 503
        await evil.gone.wait()
        assert evil.sent < MANY


async def test_of_a_refusal_without_end_the_beginning_is_read(evil: HostileNode) -> None:
    async with evil.answering(b"HTTP/1.1 500 Error\r\n\r\n", b"x") as node:
        with pytest.raises(StatusError) as refused:
            await evil.calls.read(node, "/metrics", [], ends=True)
        assert len(refused.value.message) < 100_000
        await evil.gone.wait()
        assert evil.sent < MANY


@pytest.mark.parametrize(
    ("coding", "then"), [(b"", b"x"), (b"Transfer-Encoding: chunked\r\n", b"1\r\nx\r\n")]
)
async def test_no_more_is_read_than_the_client_takes(evil: HostileNode, coding: bytes, then: bytes) -> None:
    seen = 0

    async def stands_still() -> bool:
        nonlocal seen
        before, seen = seen, evil.sent
        return before == seen > 0

    async with evil.answering(b"HTTP/1.1 200 OK\r\n" + coding + b"\r\n", then) as node:
        answer = await evil.calls.read(node, "/metrics", [], ends=True)
        assert isinstance(answer, StreamingResponse)
        taker = Taker(2**16)
        pouring = asyncio.ensure_future(answer.run(taker))
        await eventually(stands_still)
        assert evil.sent < MANY
        assert taker.buffered()
        assert set(taker.data) == {ord("x")}
        pouring.cancel()
        await answer.close()
        await evil.gone.wait()


async def test_connections_are_closed_by_who_opened_them(
    evil: HostileNode, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    # What earlier tests have left.
    gc.collect()
    recwarn.clear()
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        async with evil.answering(b"HTTP/1.1 200 OK\r\n\r\n", b"x") as node:
            answer = await evil.calls.read(node, "/metrics", [], ends=True)
            assert isinstance(answer, StreamingResponse)
            await answer.close()
            await evil.gone.wait()
        async with evil.answering(b"HTTP/1.1 500 Error\r\nContent-Length: 5\r\n\r\nhello") as node:
            with pytest.raises(StatusError):
                await evil.calls.read(node, "/metrics", [], ends=True)
            await evil.calls.check(node)
        del answer
        gc.collect()
        await asyncio.sleep(0)
    assert not [each for each in caplog.records if "nclosed" in each.getMessage()]
    assert not [each for each in recwarn if issubclass(each.category, ResourceWarning)]


async def test_what_comes_behind_an_upgrade_is_passed_on(evil: HostileNode) -> None:
    class Client:
        def __init__(self) -> None:
            self.heard = b""

        async def receive(self) -> bytes:
            await asyncio.Event().wait()
            return b""

        async def send(self, data: bytes) -> None:
            self.heard += data

        def write(self, data: bytes) -> None:
            self.heard += data

        def buffered(self) -> int:
            return 0

        closed = False

    upgraded = b"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: yes\r\n\r\n\x82\x01x"
    async with evil.answering(upgraded) as node:
        answer = await evil.calls.connect(node, "/exec/t/p/c", [], {})
        assert isinstance(answer, UpgradedResponse)
        assert answer.headers == (("sec-websocket-accept", "yes"),)
        client = Client()
        await answer.run(client)
        await answer.close()
        assert client.heard == b"\x82\x01x"


@pytest.mark.parametrize("status", [404, 405, 429, 500, 503])
async def test_what_a_node_says_is_the_clients_where_it_asks_for_that(evil: HostileNode, status: int) -> None:
    said = b"HTTP/1.1 %d No\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nno!\n" % status
    async with evil.answering(said) as node:
        answer = await evil.calls.read(node, "/x", [], ends=True, verbatim=True)
        assert isinstance(answer, Response)
        assert (answer.status, answer.body) == (status, b"no!\n")
        assert answer.content_type == "application/octet-stream"
        with pytest.raises(StatusError):
            await evil.calls.read(node, "/x", [], ends=True)


@pytest.mark.parametrize("status", [302, 401, 403])
async def test_what_is_between_server_and_node_is_no_answer(evil: HostileNode, status: int) -> None:
    said = b"HTTP/1.1 %d No\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n" % status
    async with evil.answering(said) as node:
        with pytest.raises(StatusError) as refused:
            await evil.calls.read(node, "/x", [], ends=True, verbatim=True)
        assert refused.value.code == 500


@pytest.fixture
def kubectl(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home = tmp_path_factory.getbasetemp() / "kubectl-newest"
    return Kubectl(newest(), plane.server.target.kubeconfig, home)


async def test_a_path_that_a_node_does_not_have_is_not_found(kubectl: Kubectl, node: StreamNode) -> None:
    refused = await kubectl("get", "--raw", f"/api/v1/nodes/{NAME}/proxy/nowhere")
    assert "(NotFound)" in refused.err
    assert (await kubectl("get", "--raw", f"/api/v1/nodes/{NAME}/proxy/healthz")).ok() == "ok"


async def test_a_node_chooses_no_numbers_for_the_handshake(
    kubectl: Kubectl, plane: Plane, node: StreamNode
) -> None:
    """Below TLS 1.3 a server may choose a prime, and one of 10,000 bits takes its client seconds."""
    keys = plane.node_kubeconfig.parent / "serving"
    own = ServingCertificate(keys, NAME, ["127.0.0.1"], node.api, SystemClock(), authorities=b"")
    context = own.context()
    context.verify_mode, context.maximum_version = ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nheard")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        port = {"Port": server.sockets[0].getsockname()[1]}
        status = {"daemonEndpoints": {"kubeletEndpoint": port}}
        await node.api.patch(Node, NAME, "", {"status": status}, subresource="status")
        refused = await kubectl("get", "--raw", f"/api/v1/nodes/{NAME}/proxy/healthz")
        assert "(ServiceUnavailable)" in refused.err
