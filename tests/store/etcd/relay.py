"""A cable that a test can cut: a relay of TCP connections.

async with Relay.to("http://127.0.0.1:2379") as relay:
    relay.endpoint
    await relay.cut()       # every connection breaks, new ones are refused
    await relay.mend()
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class Relay:
    def __init__(self, host: str, port: int) -> None:
        self._there = host, port
        self._port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, url: str) -> AsyncIterator[Relay]:
        parts = urlsplit(url)
        relay = cls(parts.hostname or "", parts.port or 0)
        await relay.mend()
        try:
            yield relay
        finally:
            await relay.cut()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            there, back = await asyncio.open_connection(*self._there)
            try:
                await asyncio.gather(_pump(reader, back), _pump(there, writer))
            finally:
                back.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._connections.discard(task)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()
