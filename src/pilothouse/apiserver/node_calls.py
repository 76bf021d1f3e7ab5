"""Calls to the server that each node has: what runs there is there to be read and talked to.

    calls = NodeCalls(tls)
    answer = await calls.read(endpoint, "/containerLogs/t/db-0/db", [("follow", "true")])
    tunnel = await calls.connect(endpoint, "/exec/t/db-0/db", query, request.headers)

A node is believed by its certificate alone, which has to bear its name: whoever answers at its address without that gets
no call. An upgraded connection is passed on byte for byte; what goes over it concerns the client and the node.

Every wait for a node has an end; a stream that has begun lasts until one side ends it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote, urlencode

import aiohttp

from pilothouse.apiserver.exchange import TEXT, Answer, Chunk, Line, Sink, Streaming, Tunnel
from pilothouse.apiserver.node_endpoints import Endpoint
from pilothouse.meta.errors import StatusError, bad_request, internal, too_many_requests, unavailable

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
MOST_TOLD = 64 * 1024
"""Bytes of a refusal that are passed on."""
MAX_HEAD = 64 * 1024
_HELD_BACK = 256 * 1024
_PAUSE = 0.02
_PIECE = 64 * 1024
_PASSED_ON = ("sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol", "origin", "user-agent")
_PASSED_BACK = ("sec-websocket-accept", "sec-websocket-protocol")

Query = Sequence[tuple[str, str]]

log = logging.getLogger(__name__)


class Nodes(Protocol):
    """How nodes are reached."""

    async def read(self, node: Endpoint, path: str, query: Query, *, ends: bool) -> Answer:
        """What a node answers to a GET, as it comes. Raises a 503 if it can't be asked."""

    async def connect(self, node: Endpoint, path: str, query: Query, headers: Mapping[str, str]) -> Answer:
        """A connection to a node, upgraded as the headers of the client ask. Raises a 503 if it can't be asked."""

    async def check(self, node: Endpoint) -> None:
        """Raise a 503 if a node can't be reached."""


class NoNodes:
    """A server that has no way to any node, such as a simulated one."""

    async def read(self, node: Endpoint, path: str, query: Query, *, ends: bool) -> Answer:
        raise self._problem(node)

    async def connect(self, node: Endpoint, path: str, query: Query, headers: Mapping[str, str]) -> Answer:
        raise self._problem(node)

    async def check(self, node: Endpoint) -> None:
        raise self._problem(node)

    def _problem(self, node: Endpoint) -> StatusError:
        return unavailable(f"this server has no way to node {node.name}", 0)


class NodeCalls:
    """Nodes, reached over the network."""

    def __init__(self, tls: Callable[[], ssl.SSLContext]) -> None:
        """``tls`` gives what this server shows and whom it trusts; it is asked each time, and may change."""
        self._tls = tls

    async def read(self, node: Endpoint, path: str, query: Query, *, ends: bool) -> Answer:
        connector = aiohttp.TCPConnector(force_close=True, ssl=self._tls())
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await session.get(
                    f"{node.url}{_target(path, query)}", server_hostname=node.certified, allow_redirects=False
                )
                if answer.status != 200:
                    raise refusal(node, answer.status, await answer.content.read(MOST_TOLD))
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            await session.close()
            raise _unreachable(node, problem) from None
        except BaseException:
            await session.close()
            raise
        return Streaming(
            lambda sink: _pour(answer, sink),
            harmless(answer.headers.get("Content-Type", TEXT)),
            headers=(("X-Content-Type-Options", "nosniff"),),
            ends=ends,
            patient=True,
            close=session.close,
        )

    async def connect(self, node: Endpoint, path: str, query: Query, headers: Mapping[str, str]) -> Answer:
        reader, writer = await self._open(node)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(_upgrade(node, _target(path, query), headers))
                await writer.drain()
                status, told = _head(await reader.readuntil(b"\r\n\r\n"))
                if status != 101:
                    length = int(told.get("content-length", "0"))
                    raise refusal(node, status, await reader.readexactly(min(length, MOST_TOLD)))
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, TimeoutError) as problem:
            writer.close()
            raise _unreachable(node, problem) from None
        except BaseException:
            writer.close()
            raise

        async def close() -> None:
            writer.close()

        kept = tuple((name, told[name]) for name in _PASSED_BACK if name in told)
        return Tunnel(lambda line: _relay(line, reader, writer), headers=kept, close=close)

    async def check(self, node: Endpoint) -> None:
        _, writer = await self._open(node)
        writer.close()

    async def _open(self, node: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.open_connection(
                    node.host, node.port, ssl=self._tls(), server_hostname=node.certified, limit=MAX_HEAD
                )
        except (OSError, TimeoutError) as problem:
            raise _unreachable(node, problem) from None


def _target(path: str, query: Query) -> str:
    return f"{quote(path)}?{urlencode(query)}" if query else quote(path)


def _upgrade(node: Endpoint, target: str, headers: Mapping[str, str]) -> bytes:
    """The request for a WebSocket, with the client's own key: the node's answer is then the client's too."""
    kept = [(name, headers[name]) for name in _PASSED_ON if name in headers]
    lines = [f"GET {target} HTTP/1.1", f"Host: {node.name}", "Connection: Upgrade", "Upgrade: websocket"]
    lines += [f"{name}: {value}" for name, value in kept]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _head(data: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer. Raises ``ValueError`` for what is none."""
    first, *lines = data.decode("latin-1").rstrip("\r\n").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"it does not answer in HTTP but with {first[:40]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(rest[:3]), headers


async def _pour(answer: aiohttp.ClientResponse, sink: Sink) -> None:
    """Pass on what a node sends, no faster than the client takes it."""
    async for data in answer.content.iter_any():
        if sink.closed:
            return
        sink.write(Chunk.of(data))
        while sink.buffered() > _HELD_BACK and not sink.closed:  # noqa: ASYNC110 - a sink is looked at, not waited for
            await asyncio.sleep(_PAUSE)


async def _relay(line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on, both ways, until either side has ended."""

    async def up() -> None:
        while data := await line.receive():
            writer.write(data)
            await writer.drain()

    async def down() -> None:
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
    """What a node says its answer is, if no browser does anything with that: it would be done in the API server's name."""
    media = content_type.partition(";")[0].strip().lower()
    return content_type if media in ("text/plain", "application/json") else "application/octet-stream"


def refusal(node: Endpoint, status: int, body: bytes) -> StatusError:
    """What a node says against it, as the client is told: nodes speak in sentences."""
    said = body.decode(errors="replace").strip()
    if status in (400, 404, 422):
        return bad_request(said) if status != 422 else StatusError(422, "Invalid", said)
    if status == 429:
        return too_many_requests(f"node {node.name}: {said}")
    if status in (401, 403):
        return internal(f"node {node.name} does not take calls from this server: {said}")
    return internal(f"node {node.name} answers {status}: {said}")


def _unreachable(node: Endpoint, problem: BaseException) -> StatusError:
    why = str(problem) or (
        "no answer in time" if isinstance(problem, TimeoutError) else type(problem).__name__
    )
    return unavailable(f"node {node.name} can't be reached at {node.host}:{node.port}: {why}", 0)
