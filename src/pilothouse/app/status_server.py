"""A small HTTP server for the health and metrics pages of a process.

    async with serving("127.0.0.1", 0, {"/healthz": lambda: StatusPage(200, "ok")}) as port:
        …

Every client that reaches the port may read, pods on the same machine too, so pages contain only health and
counts. With ``MOST_CONNECTIONS`` open, the oldest is closed for the next, so that idle connections can't use
up the process's files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from pilothouse.app.options import StartError, explain

TEXT = "text/plain; charset=utf-8"
MOST_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class StatusPage:
    status: int
    text: str
    content_type: str = TEXT


class _BoundedServer(web.Server):
    """Closes its oldest connection when there are too many."""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        for oldest in self.connections[:-MOST_CONNECTIONS]:
            if oldest.transport is not None:
                oldest.transport.close()


@asynccontextmanager
async def serving(host: str, port: int, pages: Mapping[str, Callable[[], StatusPage]]) -> AsyncIterator[int]:
    """Serve the pages within the context; yields the port, a free one for 0. Raises ``StartError``."""

    async def answer(request: web.BaseRequest) -> web.Response:
        make = pages.get(request.path)
        if make is None:
            there = "\n".join(sorted(pages))
            return _response(StatusPage(404, f"{request.path} not found; there is\n{there}\n"))
        if request.method not in ("GET", "HEAD"):
            return _response(StatusPage(405, "only GET is supported\n"))
        return _response(make())

    runner = web.ServerRunner(_BoundedServer(answer))
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as problem:
            raise StartError(f"can't listen on {host}:{port}: {explain(problem)}") from None
        bound: int = runner.addresses[0][1]
        yield bound
    finally:
        await runner.cleanup()


def _response(page: StatusPage) -> web.Response:
    return web.Response(
        status=page.status, body=page.text.encode(), headers={"Content-Type": page.content_type}
    )
