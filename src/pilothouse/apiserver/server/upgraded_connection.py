"""A client's connection after a change of protocol.

    line = UpgradedConnection(transport, drain, tail)
    line.feed(data)                    # the connection, for all that arrives
    await line.receive()               # the owner of the connection

Bytes in and out, with backpressure both ways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

MOST_HELD = 64 * 1024
"""Bytes that have arrived and not been received; the client is held back at twice as many."""


class UpgradedConnection:
    def __init__(
        self, transport: asyncio.Transport, drain: Callable[[], Awaitable[None]], tail: bytes
    ) -> None:
        """``drain`` waits while the client reads nothing; ``tail`` has already arrived."""
        self._transport = transport
        self._drain = drain
        self._reader = asyncio.StreamReader(limit=MOST_HELD)
        self._reader.set_transport(transport)
        if tail:
            self._reader.feed_data(tail)

    def feed(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def lost(self) -> None:
        """Nothing more will arrive."""
        self._reader.feed_eof()

    async def receive(self) -> bytes:
        return await self._reader.read(MOST_HELD)

    async def send(self, data: bytes) -> None:
        self._transport.write(data)
        await self._drain()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def buffered(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def closed(self) -> bool:
        return self._transport.is_closing()
