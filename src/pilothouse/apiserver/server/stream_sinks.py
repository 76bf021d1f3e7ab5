"""The sinks of streams: writes go to the transport directly; after a disconnect they are dropped."""

from __future__ import annotations

import asyncio
from typing import Protocol

from pilothouse.apiserver.server.messages import StreamChunk


class Connected(Protocol):
    """The connection. The transport is None once the client is gone."""

    @property
    def transport(self) -> asyncio.Transport | None: ...


class ChunkedSink:
    """A stream over a connection, with HTTP's chunk framing."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connected) -> None:
        self._connection = connection

    def write(self, chunk: StreamChunk) -> None:
        transport = self._connection.transport
        if transport is not None:
            transport.write(chunk.framed)

    def buffered(self) -> int:
        transport = self._connection.transport
        return transport.get_write_buffer_size() if transport is not None else 0

    @property
    def closed(self) -> bool:
        transport = self._connection.transport
        return transport is None or transport.is_closing()


class PlainSink(ChunkedSink):
    """The same for HTTP/1.0, which has no chunks."""

    __slots__ = ()

    def write(self, chunk: StreamChunk) -> None:
        transport = self._connection.transport
        if transport is not None:
            transport.write(chunk.data)
