"""Containers that answer probes and hooks with anything but an answer: the agent reads little of it, judges, and goes on."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
from tests.kit.certificates import Authority
from tests.kit.open_files import no_more_files
from tests.node.stage import Stage, app, is_ready

from pilothouse.node.containers.handlers import HandlerResult, HandlerTarget, run_handler
from pilothouse.node.interfaces import RunningContainer
from pilothouse.node.machine.shutdown import end_pods
from pilothouse.node.pods.pod_directories import PodDirectory

LONG = 600.0
"""Seconds that a pod may have its probes wait."""
ENOUGH = 60.0
"""Seconds within which the agent is done with all of these, on the slowest machine."""
MANY = 8 * 2**20
"""Bytes that are in flight on a loopback connection at most, whatever the reader takes."""


class Server:
    """A container that answers each request with a beginning, and then the same over and over."""

    def __init__(self, first: bytes, then: bytes = b"") -> None:
        self._first, self._then = first, then
        self.requests: list[bytes] = []
        self.sent = 0
        self.port = 0

    @contextlib.asynccontextmanager
    async def listening(self, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
        async with await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=context) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self._first)
            piece = self._then * (65536 // max(1, len(self._then)))
            while piece and self.sent < 32 * MANY:
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)
        writer.close()


async def carried_out(handler: dict[str, Any], seconds: float = LONG) -> HandlerResult:
    target = HandlerTarget(cast("RunningContainer", None), {"name": "app"}, "127.0.0.1")
    async with asyncio.timeout(ENOUGH):
        return await run_handler(handler, target, seconds)


async def asked(server: Server, **get: Any) -> HandlerResult:
    return await carried_out({"httpGet": {"port": server.port, **get}})


ENDLESS = {
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
    "a status line": (b"HTTP/1.1 200 ", b"x"),
    "nothing of HTTP": (b"", b"\0"),
    "chunks that have no length": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_an_answer_without_end_fails_soon(name: str) -> None:
    async with Server(*ENDLESS[name]).listening() as server:
        outcome = await asked(server)
        assert (outcome.succeeded, outcome.asked) == (False, True)
        assert outcome.output.startswith(f'Get "http://127.0.0.1:{server.port}/": ')
        assert server.sent < MANY


async def test_of_a_body_without_end_the_beginning_is_read() -> None:
    async with Server(b"HTTP/1.1 200 OK\r\n\r\n", b"x").listening() as server:
        assert await asked(server) == HandlerResult(True, "x" * 10240)
        assert server.sent < MANY


async def test_why_an_answer_is_bad_is_told_by_the_first_line_of_it() -> None:
    answer = b"HTTP/1.1 500 Oh\r\n\r\n\n  no master is elected\x1b[31m \r\nsecond line\n"
    async with Server(answer).listening() as server:
        said = "HTTP probe failed with statuscode: 500"
        assert (await asked(server)).output == f"{said}: no master is elected^[[31m"
        # What another host says is not read to those who may create pods.
        assert (await asked(server, host="127.0.0.1")).output == said


async def test_of_a_bad_answer_without_end_the_beginning_is_told() -> None:
    async with Server(b"HTTP/1.1 500 Oh\r\n\r\n", b"x").listening() as server:
        assert (await asked(server)).output == f"HTTP probe failed with statuscode: 500: {'x' * 200}"


async def test_bytes_are_counted_below_tls(tmp_path: Path) -> None:
    """Whatever a server sends within its encryption, the connection is left after so many bytes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = Authority.create(tmp_path).server()
    context.load_cert_chain(pair.cert, pair.key)
    for first, then, well in (
        (b"", b"HTTP/1.1 100 C\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"", True),
    ):
        async with Server(first, then).listening(context) as server:
            assert (await asked(server, scheme="HTTPS")).succeeded is well
            assert server.sent < MANY


async def test_a_handshake_without_end_is_left() -> None:
    record = b"\x16\x03\x03\x40\x00" + b"\0" * 16384

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                writer.write(record)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outcome = await carried_out({"httpGet": {"port": port, "scheme": "HTTPS"}})
        assert (outcome.succeeded, outcome.asked) == (False, True)


async def test_a_server_chooses_no_numbers_for_the_handshake(tmp_path: Path) -> None:
    """With DHE it may choose a prime, and one of 10,000 bits takes the client seconds. This one is smaller."""
    prime = (random.Random(1).getrandbits(2048) | 1 << 2047 | 1).to_bytes(256, "big")
    numbers = b"\x30\x82\x01\x08" + b"\x02\x82\x01\x01\x00" + prime + b"\x02\x01\x02"
    file = tmp_path / "dh.pem"
    encoded = base64.encodebytes(numbers).decode()
    file.write_text(f"-----BEGIN DH PARAMETERS-----\n{encoded}-----END DH PARAMETERS-----\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    leaf = Authority.create(tmp_path).issuer.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)
    leaf.configure_cert(context)
    context.load_dh_params(str(file))
    for ciphers, well in (("ECDHE", True), ("DHE", False)):
        context.set_ciphers(ciphers)
        async with Server(b"HTTP/1.1 204 No Content\r\n\r\n").listening(context) as server:
            assert (await asked(server, scheme="HTTPS")).succeeded is well


@pytest.mark.parametrize(
    "location",
    [
        b"http://[::1/",
        b"http://127.0.0.1:port/",
        b"http://127.0.0.1:99999/",
        b"http://127.0.0.1/\x01",
        b"ftp://127.0.0.1/",
        b"//[",
    ],
)
async def test_a_location_that_is_none_is_a_failure(location: bytes) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
    async with Server(answer).listening() as server:
        outcome = await asked(server)
        assert (outcome.succeeded, outcome.asked) == (False, True)


@pytest.mark.parametrize(("location", "requests"), [(b"/again", 10), (b"http://elsewhere.invalid/", 1)])
async def test_redirects_end(location: bytes, requests: int) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
    async with Server(answer).listening() as server:
        assert (await asked(server)).succeeded is (requests == 1)
        assert len(server.requests) == requests


async def test_requests_are_kubelets() -> None:
    async with Server(b"HTTP/1.1 204 No Content\r\n\r\n").listening() as server:
        headers = [
            {"name": "X-One", "value": "1"},
            {"name": "X-One", "value": "2"},
            {"name": "accept", "value": ""},
        ]
        await asked(server, path="well?a=b c#d", httpHeaders=headers)
        await asked(server, path="/a b%zz", httpHeaders=[{"name": "Host", "value": "app.example"}])
    plain, named = (request.decode().split("\r\n") for request in server.requests)
    assert plain[0] == "GET /well?a=b%20c HTTP/1.1"
    assert sorted(plain[1:-2]) == [
        "Connection: close",
        f"Host: 127.0.0.1:{server.port}",
        "User-Agent: kube-probe/1.32",
        "X-One: 1",
        "X-One: 2",
    ]
    assert named[:2] == ["GET /a%20b%25zz HTTP/1.1", "Host: app.example"]
    assert "Accept: */*" in named


@pytest.mark.parametrize(
    "get",
    [
        {"path": "/x HTTP/1.1\r\nX-Evil: 1\r\n\r\n"},
        {"httpHeaders": [{"name": "X", "value": "1\r\nX-Evil: 1"}]},
        {"httpHeaders": [{"name": "Host", "value": "h\r\nX-Evil: 1"}]},
        {"httpHeaders": [{"name": "X-Evil: 1\r\nX", "value": "1"}]},
    ],
)
async def test_nothing_is_smuggled_into_a_request(get: dict[str, Any]) -> None:
    async with Server(b"HTTP/1.1 204 No Content\r\n\r\n").listening() as server:
        await asked(server, **get)
    assert not any(line.startswith(b"X-Evil") for each in server.requests for line in each.split(b"\r\n"))


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
async def test_a_want_of_this_machine_is_no_verdict_on_a_container(kind: str) -> None:
    async with Server(b"HTTP/1.1 204 No Content\r\n\r\n").listening() as server:
        handler = {kind: {"port": server.port}}
        with no_more_files():
            outcome = await carried_out(handler)
        assert not outcome.asked
        assert outcome.output.endswith(
            f"dial tcp 127.0.0.1:{server.port}: connect: {os.strerror(24).lower()}"
        )
        assert (await carried_out(handler)).succeeded


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
async def test_nobody_there_is_a_verdict(kind: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        outcome = await carried_out({kind: {"port": taken.getsockname()[1]}})
    assert (outcome.succeeded, outcome.asked) == (False, True)


async def test_an_answer_that_breaks_off_is_no_verdict() -> None:
    """Kubelet drops the result then, too."""
    async with Server(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel").listening() as server:
        assert not (await asked(server)).asked


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "..", "with space", "\0"])
async def test_a_name_that_is_none_is_a_failure(host: str) -> None:
    for kind in ("httpGet", "tcpSocket"):
        assert not (await carried_out({kind: {"host": host, "port": 80}})).succeeded


def test_a_hook_that_can_not_be_carried_out_keeps_no_container(stage: Stage) -> None:
    """There is no network on this stage: whatever the hook raises, the container is stopped, by an agent and without one."""
    hooks = {"preStop": {"httpGet": {"port": 80, "host": "127.0.0.1"}}}

    async def scene() -> None:
        for name in ("web-0", "web-1"):
            await stage.pod({"containers": [app(lifecycle=hooks)]}, name)
            await stage.until(is_ready, name)
        await stage.delete("web-0")
        await stage.until_gone("web-0", seconds=5)
        await stage.kill_agent()
        assert await end_pods(stage.settings.data, stage.machine, stage.clock, patience=5) == 1
        assert not stage.machine.running

    stage.play(scene)


def test_hooks_know_the_pods_address_without_an_agent(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        pod = await stage.until(is_ready)
        remembered = PodDirectory(stage.settings.pods / pod.uid).read_pod()
        assert remembered is not None
        assert remembered.status["podIP"] == pod.status["podIP"] != ""

    stage.play(scene)
