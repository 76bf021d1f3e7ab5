"""Requests to the server of a node.

    calls = HTTPSNodeClient(tls)
    answer = await calls.read(endpoint, "/containerLogs/t/db-0/db", [("follow", "true")], ends=False)
    tunnel = await calls.connect(endpoint, "/exec/t/db-0/db", query, request.headers)

A node must present a certificate with its name; a node that is not ready may still wait for one, so
connecting is retried until its timeout. Every wait is bounded except within a running stream. A node may be
hostile: response heads are bounded (``aio.http_response``), and bodies are read at the client's pace.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol
from urllib.parse import quote, urlencode

from pilothouse.aio.http_response import HTTPResponse, HTTPResponseError, read_response
from pilothouse.apiserver.registry.node_addresses import NodeEndpoint
from pilothouse.apiserver.server.messages import (
    TEXT,
    Answer,
    Response,
    StreamChunk,
    StreamingResponse,
    StreamSink,
    UpgradedResponse,
    UpgradedStream,
)
from pilothouse.base.backoff import Backoff
from pilothouse.meta.errors import StatusError, bad_request, internal, too_many_requests, unavailable

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
MAX_ERROR = 64 * 1024
"""Bytes of a refusal that are passed on."""
MAX_HEAD = 64 * 1024
_HELD_BACK = 256 * 1024
_PAUSE = 0.02
_UNPROVEN = Backoff(first=0.1, factor=1.5, longest=1.0)
"""Pauses between two tries of a node that has not shown the certificate by which it is known."""
_PIECE = 64 * 1024
_PASSED_ON = ("sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol", "origin", "user-agent")
_PASSED_BACK = ("sec-websocket-accept", "sec-websocket-protocol")
_SAFE = (("X-Content-Type-Options", "nosniff"),)
_BROKEN = (OSError, HTTPResponseError, TimeoutError)

Query = Sequence[tuple[str, str]]

log = logging.getLogger(__name__)


class NodeClient(Protocol):
    async def read(
        self, node: NodeEndpoint, path: str, query: Query, *, ends: bool, verbatim: bool = False
    ) -> Answer:
        """The response of a node to a GET, streamed; 503 if it can't be reached.

        A node's error response becomes an error of ours, or with ``verbatim`` is passed on.
        """

    async def connect(
        self, node: NodeEndpoint, path: str, query: Query, headers: Mapping[str, str]
    ) -> Answer:
        """A connection to a node, upgraded by the client's headers. 503 if the node can't be reached."""

    async def check(self, node: NodeEndpoint) -> None:
        """Raise a 503 if a node can't be reached."""


class NoNodeClient:
    """For a server without access to nodes, such as a simulated one."""

    async def read(
        self, node: NodeEndpoint, path: str, query: Query, *, ends: bool, verbatim: bool = False
    ) -> Answer:
        raise self._problem(node)

    async def connect(
        self, node: NodeEndpoint, path: str, query: Query, headers: Mapping[str, str]
    ) -> Answer:
        raise self._problem(node)

    async def check(self, node: NodeEndpoint) -> None:
        raise self._problem(node)

    def _problem(self, node: NodeEndpoint) -> StatusError:
        return unavailable(f"this server has no way to node {node.name}", 0)


class HTTPSNodeClient:
    def __init__(self, tls: Callable[[], ssl.SSLContext]) -> None:
        """``tls`` returns the current client context; it is called each time."""
        self._tls = tls

    async def read(
        self, node: NodeEndpoint, path: str, query: Query, *, ends: bool, verbatim: bool = False
    ) -> Answer:
        request = _request(node, _target(path, query), "Connection: close")
        async with self._exchange(node, request) as (response, _, writer):
            content_type = harmless(response.header("Content-Type", TEXT))
            if response.status != 200:
                said = await response.read(MAX_ERROR)
                if not (verbatim and is_for_client(response.status)):
                    raise refusal(node, response.status, said)
                writer.transport.abort()
                return Response(response.status, said, content_type, _SAFE)

        async def close() -> None:
            # Abort: a node that keeps sending would keep a connection that waits for its end.
            writer.transport.abort()

        return StreamingResponse(
            lambda sink: _pour(response, sink),
            content_type,
            headers=_SAFE,
            ends=ends,
            patient=True,
            close=close,
        )

    async def connect(
        self, node: NodeEndpoint, path: str, query: Query, headers: Mapping[str, str]
    ) -> Answer:
        request = _upgrade(node, _target(path, query), headers)
        async with self._exchange(node, request) as (response, reader, writer):
            if response.status != 101:
                raise refusal(node, response.status, await response.read(MAX_ERROR))

        async def close() -> None:
            writer.close()

        kept = tuple((name, value) for name in _PASSED_BACK if (value := response.header(name)))
        return UpgradedResponse(
            lambda line: _relay(line, response.rest, reader, writer), headers=kept, close=close
        )

    async def check(self, node: NodeEndpoint) -> None:
        _, writer = await self._open(node)
        writer.close()

    @asynccontextmanager
    async def _exchange(
        self, node: NodeEndpoint, request: bytes
    ) -> AsyncIterator[tuple[HTTPResponse, asyncio.StreamReader, asyncio.StreamWriter]]:
        """Send a request; the response and the connection, which is aborted if the context raises."""
        reader, writer = await self._open(node)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(request)
                await writer.drain()
                yield await read_response(reader, max_head=MAX_HEAD), reader, writer
        except BaseException as problem:
            writer.transport.abort()
            if isinstance(problem, _BROKEN):
                raise _unreachable(node, problem) from None
            raise

    async def _open(self, node: NodeEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        failures, problem = 0, OSError("no answer in time")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while True:
                    try:
                        return await self._connection(node)
                    except ssl.SSLCertVerificationError as unproven:
                        problem = unproven
                        if node.is_ready:
                            break
                    failures += 1
                    await asyncio.sleep(_UNPROVEN.after(failures))
        except TimeoutError:
            pass
        except OSError as other:
            problem = other
        raise _unreachable(node, problem) from None

    async def _connection(self, node: NodeEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            node.host, node.port, ssl=self._tls(), server_hostname=node.certified, limit=MAX_HEAD
        )


def _target(path: str, query: Query) -> str:
    return f"{quote(path)}?{urlencode(query)}" if query else quote(path)


def _request(node: NodeEndpoint, target: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {node.name}", *lines, "", ""]).encode("latin-1")


def _upgrade(node: NodeEndpoint, target: str, headers: Mapping[str, str]) -> bytes:
    """The WebSocket request, with the client's own key, so that the node's response suits the client."""
    kept = [f"{name}: {headers[name]}" for name in _PASSED_ON if name in headers]
    return _request(node, target, "Connection: Upgrade", "Upgrade: websocket", *kept)


async def _pour(response: HTTPResponse, sink: StreamSink) -> None:
    """Pass on the node's response at the client's pace."""
    while data := await response.read_piece():
        if sink.closed:
            return
        sink.write(StreamChunk.of(data))
        # Others get their turn, though there may be more of it here already.
        await asyncio.sleep(0)
        while sink.buffered() > _HELD_BACK and not sink.closed:  # noqa: ASYNC110 - sinks can only be polled
            await asyncio.sleep(_PAUSE)


async def _relay(
    line: UpgradedStream, begun: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Pass bytes both ways until either side ends. ``begun`` has already arrived from the node."""

    async def up() -> None:
        while data := await line.receive():
            writer.write(data)
            await writer.drain()

    async def down() -> None:
        if begun:
            await line.send(begun)
        while data := await reader.read(_PIECE):
            await line.send(data)

    both = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
    try:
        ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in ended:
            if problem := each.exception():
                log.info("a tunnel to a node ended: %s", problem)
    finally:
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)


def harmless(content_type: str) -> str:
    """The content type of a node's response, if no browser interprets it: it would trust the API server."""
    media = content_type.partition(";")[0].strip().lower()
    return content_type if media in ("text/plain", "application/json") else "application/octet-stream"


def is_for_client(status: int) -> bool:
    """Whether a response other than 200 is for the client: no redirects or authentication errors."""
    return not (300 <= status < 400 or status in (401, 403))


def refusal(node: NodeEndpoint, status: int, body: bytes) -> StatusError:
    """A node's error as an error for the client; nodes send plain text."""
    said = body.decode(errors="replace").strip()
    if status in (400, 404, 422):
        return bad_request(said) if status != 422 else StatusError(422, "Invalid", said)
    if status == 429:
        return too_many_requests(f"node {node.name}: {said}")
    if status in (401, 403):
        return internal(f"node {node.name} does not take calls from this server: {said}")
    return internal(f"node {node.name} answers {status}: {said}")


def _unreachable(node: NodeEndpoint, problem: BaseException) -> StatusError:
    why = str(problem) or (
        "no answer in time" if isinstance(problem, TimeoutError) else type(problem).__name__
    )
    return unavailable(f"node {node.name} can't be reached at {node.host}:{node.port}: {why}", 0)
