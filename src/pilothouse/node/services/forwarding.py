"""Bytes from one connection to another, both ways, until both sides have ended.

    server = await loop.create_server(lambda: Incoming(route), sock=listening)

An accepted connection waits until the other side is connected; nothing is read before. A side that takes its time holds the other
back (the transport's own marks), so memory is bounded whatever is sent. The end of one direction is handed on as such: a
client that has sent all it has to say still gets the answer. A connection that breaks breaks the other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import cast

Route = Callable[[str, "Side"], Awaitable[None]]
"""Connect the given side for a client of this address to wherever it should go. Raises ``OSError`` if that can't be done."""


def reset(transport: asyncio.Transport) -> None:
    """End a connection so that the other end learns that it broke, rather than that all was said."""
    if (connection := transport.get_extra_info("socket")) is not None and not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Side(asyncio.Protocol):
    """One end of a pair."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Side | None = None
        self._ended = False

    def join(self, other: Side) -> None:
        """Be the other end of a connection."""
        self.other, other.other = other, self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        self._ended = True
        other = self.other
        if other is None or other.transport is None:
            return False
        if other.transport.can_write_eof() and not other.transport.is_closing():
            other.transport.write_eof()
        # Once both have ended there is nothing left to keep open.
        if other._ended:
            other.transport.close()
            return False
        return True

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if (
            self.other is not None
            and self.other.transport is not None
            and not self.other.transport.is_closing()
        ):
            self.other.transport.resume_reading()

    def connection_lost(self, problem: Exception | None) -> None:
        other, self.other = self.other, None
        if other is not None and other.transport is not None:
            if problem is not None:
                reset(other.transport)
            else:
                other.transport.close()


class Incoming(Side):
    """The end that a client is connected to."""

    def __init__(self, route: Route, tasks: set[asyncio.Task[None]], live: set[asyncio.Transport]) -> None:
        super().__init__()
        self._route = route
        self._tasks = tasks
        self._live = live

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        self._live.add(self.transport)
        client = str((transport.get_extra_info("peername") or ("",))[0])
        task = asyncio.get_running_loop().create_task(self._connect(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def connection_lost(self, problem: Exception | None) -> None:
        super().connection_lost(problem)
        if self.transport is not None:
            self._live.discard(self.transport)

    async def _connect(self, client: str) -> None:
        assert self.transport is not None
        outgoing = Side()
        try:
            await self._route(client, outgoing)
        except OSError:
            # Nobody answered: the client learns it the way it would have learnt it directly.
            reset(self.transport)
            return
        if self.transport.is_closing():
            if outgoing.transport is not None:
                outgoing.transport.abort()
            return
        self.join(outgoing)
        self.transport.resume_reading()
