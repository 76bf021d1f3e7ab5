"""Probes and metrics over plain HTTP, on the instance's own address.

    async with serving(address, {12001: supervisor.readiness, 12000: supervisor.liveness}, metrics): ...

Any path answers the probe of the port: 200, or 500 with the reason. Both ports serve ``/metrics``. Only the
first line of a request is read: aiohttp would be a fourth of a pilot's memory. With ``MOST_CONNECTIONS``
open, the oldest is closed for the next, so that idle connections can't keep a probe out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Final

from pilothouse.base.prometheus_text import CONTENT_TYPE

Question = Callable[[], str]
"""Returns what is wrong; empty if nothing is."""
MOST_CONNECTIONS: Final = 64
_PATIENCE: Final = 10.0
_LONGEST_HEAD: Final = 16 * 1024
_TEXT: Final = "text/plain; charset=utf-8"


@asynccontextmanager
async def serving(
    host: str, questions: Mapping[int, Question], metrics: Callable[[], str]
) -> AsyncIterator[None]:
    """Raises ``OSError`` for a port that can't be opened."""
    open_ones: dict[asyncio.StreamWriter, None] = {}
    async with AsyncExitStack() as stack:
        for port, question in questions.items():
            answering = _answering(question, metrics, open_ones)
            await stack.enter_async_context(
                await asyncio.start_server(answering, host, port, limit=_LONGEST_HEAD)
            )
        yield


def _answering(
    question: Question, metrics: Callable[[], str], open_ones: dict[asyncio.StreamWriter, None]
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(open_ones) >= MOST_CONNECTIONS:
            oldest = next(iter(open_ones))
            del open_ones[oldest]
            oldest.transport.abort()
        open_ones[writer] = None
        try:
            with contextlib.closing(writer), contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    writer.write(await _answered(reader, question, metrics))
                    await writer.drain()
        finally:
            open_ones.pop(writer, None)

    return answer


async def _answered(reader: asyncio.StreamReader, question: Question, metrics: Callable[[], str]) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return _answer(HTTPStatus.BAD_REQUEST, "not an HTTP request\n")
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    target, _, protocol = rest.partition(" ")
    if not protocol.startswith("HTTP/1."):
        return _answer(HTTPStatus.BAD_REQUEST, "not an HTTP request\n")
    if target.partition("?")[0] == "/metrics":
        return _answer(HTTPStatus.OK, metrics(), CONTENT_TYPE, bodiless=method == "HEAD")
    problem = question()
    status = HTTPStatus.INTERNAL_SERVER_ERROR if problem else HTTPStatus.OK
    return _answer(status, f"{problem}\n" if problem else "", bodiless=method == "HEAD")


def _answer(status: HTTPStatus, text: str, kind: str = _TEXT, *, bodiless: bool = False) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if bodiless else body)
