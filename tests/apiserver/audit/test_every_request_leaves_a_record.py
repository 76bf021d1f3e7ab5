"""A server that records: whatever comes in over the wire and however it ends, there is a line of it."""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.audit.scenes import lines_of, trail_at
from tests.kit.waiting import eventually

from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.authentication.authenticator import Authenticator, read_tokens
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.http_protocol import Handler
from pilothouse.apiserver.server.https_server import HTTPSServer, tls_context
from pilothouse.apiserver.server.messages import (
    Answer,
    Request,
    Response,
    StreamChunk,
    StreamingResponse,
    StreamSink,
)
from pilothouse.pki.keyring import Keyring

Serve = Callable[..., Awaitable["Served"]]
POD = "/api/v1/namespaces/t/pods/a"


class Served:
    """An edge with a handler of the test's own, and what it recorded."""

    def __init__(self, port: int, authority: bytes, trail: AuditTrail, log: Path) -> None:
        self._port = port
        self._trust = ssl.create_default_context(cadata=authority.decode())
        self.trail = trail
        self._log = log

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trust)

    async def send(
        self, method: str, path: str, *headers: str, token: str = "s3cret", body: bytes = b""
    ) -> bytes:
        """One request on a connection of its own; all that comes back."""
        reader, writer = await self.dial()
        head = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}"]
        head += [f"Authorization: Bearer {token}"] if token else []
        writer.write("\r\n".join([*head, *headers, "", ""]).encode() + body)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer

    async def records(self) -> list[dict[str, Any]]:
        await self.trail.flushed(10)
        return lines_of(self._log) if self._log.exists() else []


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    now = datetime.datetime.now(datetime.UTC)
    keyring = Keyring(tmp_path / "pki")
    authority = keyring.authority(now)
    pair = keyring.serving(authority, ["localhost", "127.0.0.1"], now)
    async with AsyncExitStack() as stack:

        async def start(handler: Handler, *, shares: FlowController | None = None) -> Served:
            trail = await stack.enter_async_context(trail_at(tmp_path / "audit.log"))
            edge = HTTPSServer(
                handler,
                authenticator=Authenticator(read_tokens("s3cret,alice,1\n", "tokens.csv")),
                health=Health(),
                shares=shares or FlowController(),
                requests=RequestCounters(KindCatalog()),
                trail=trail,
            )
            port = await edge.listen("127.0.0.1", 0, tls_context(pair.certificate, pair.key))
            stack.push_async_callback(edge.stop, 0.0)
            return Served(port, authority.certificate, trail, tmp_path / "audit.log")

        yield start


async def fine(request: Request) -> Answer:
    return Response(200, b"{}")


async def test_a_request_and_its_answer_share_their_id(serve: Serve) -> None:
    server = await serve(fine)

    answer = await server.send("GET", POD)
    (record,) = await server.records()

    assert f"Audit-Id: {record['auditID']}".encode() in answer
    assert record["user"]["username"] == "alice"
    assert record["responseStatus"]["code"] == 200


async def test_an_id_that_is_sent_is_the_record_s(serve: Serve) -> None:
    server = await serve(fine)

    await server.send("GET", POD, 'Audit-ID: mine "7"')

    assert [record["auditID"] for record in await server.records()] == ['mine "7"']


async def test_a_wrong_token_is_recorded_and_not_told(serve: Serve) -> None:
    server = await serve(fine)

    await server.send("GET", POD, token="guessed-wrong")
    (record,) = await server.records()

    assert record["responseStatus"]["code"] == 401
    assert record["user"] == {}
    assert "guessed-wrong" not in json.dumps(record)


async def test_what_is_refused_before_it_is_handled_is_recorded(serve: Serve) -> None:
    server = await serve(fine)

    await server.send("GET", "/api/v1/../pods")
    await server.send("POST", POD, "Content-Encoding: br", body=b"x")

    codes = [record["responseStatus"]["code"] for record in await server.records()]
    assert len(codes) == 2
    assert all(400 <= code < 500 for code in codes)


async def test_too_many_requests_are_recorded(serve: Serve) -> None:
    begun, enough = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Answer:
        begun.set()
        await enough.wait()
        return Response(200, b"{}")

    server = await serve(slow, shares=FlowController(reads=1))
    first = asyncio.create_task(server.send("GET", POD))
    await begun.wait()

    assert b" 429 " in await server.send("GET", POD)
    enough.set()
    await first

    assert [record["responseStatus"]["code"] for record in await server.records()] == [429, 200]


async def test_a_handler_that_breaks_is_a_panic(serve: Serve) -> None:
    async def broken(request: Request) -> Answer:
        raise ZeroDivisionError

    server = await serve(broken)

    await server.send("GET", POD)
    (record,) = await server.records()

    assert record["stage"] == "Panic"
    assert record["responseStatus"]["code"] == 500


async def test_a_stream_is_recorded_when_it_starts_and_when_it_ends(serve: Serve) -> None:
    over = asyncio.Event()

    async def run(sink: StreamSink) -> None:
        sink.write(StreamChunk.of(b"{}\n"))
        await over.wait()

    async def stream(request: Request) -> Answer:
        return StreamingResponse(run)

    server = await serve(stream)
    watching = asyncio.create_task(server.send("GET", "/api/v1/pods?watch=1"))

    async def started() -> bool:
        return len(await server.records()) == 1

    await eventually(started)
    over.set()
    await watching

    first, last = await server.records()
    assert (first["stage"], last["stage"]) == ("ResponseStarted", "ResponseComplete")
    assert first["auditID"] == last["auditID"]
    assert first["stageTimestamp"] < last["stageTimestamp"]


async def test_a_client_that_went_away_is_recorded(serve: Serve) -> None:
    begun = asyncio.Event()

    async def slow(request: Request) -> Answer:
        begun.set()
        await asyncio.Event().wait()
        return Response(200, b"{}")

    server = await serve(slow)
    _, writer = await server.dial()
    writer.write(f"GET {POD} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret\r\n\r\n".encode())
    await begun.wait()
    writer.transport.abort()

    records = await eventually(server.records)

    assert records[0]["responseStatus"]["code"] == 499


async def test_health_is_not_recorded_by_default(serve: Serve) -> None:
    server = await serve(fine)

    await server.send("GET", "/readyz", token="")
    await server.send("GET", POD)

    assert [record["requestURI"] for record in await server.records()] == [POD]
