"""Forwards bytes between two connections, both ways, until both sides have ended.

    server = await loop.create_server(lambda: ClientSide(route, tasks, opened, closed), sock=listening)

An accepted connection waits until the other side is connected. Whatever comes before the two are joined, at most what one read brings, is
kept and handed on then; nothing more is read meanwhile. A side that takes its time holds the other back (the transport's own
marks), so memory is bounded whatever is sent. The end of one direction is handed on as such: a client that has sent all it has
to say still gets the answer. A connection that breaks breaks the other, also when it does so before they are joined.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import cast

Route = Callable[[str], Awaitable["ForwardingSide"]]
"""A side that is connected to wherever a client of this address should go. Raises ``OSError`` if that can't be done."""


def reset(transport: asyncio.Transport) -> None:
    """End a connection so that the other end learns that it broke, rather than that all was said."""
    if (connection := transport.get_extra_info("socket")) is not None and not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class ForwardingSide(asyncio.Protocol):
    """One end of a pair."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: ForwardingSide | None = None
        self._early = b""
        self._ended = False

    def join(self, other: ForwardingSide) -> None:
        """Be the other end of a connection. Both are connected; what either has said by now is handed on, also that it is gone."""
        here, there = self.transport, other.transport
        assert here is not None
        assert there is not None
        if here.is_closing() or there.is_closing():
            reset(here)
            reset(there)
            return
        self.other, other.other = other, self
        # Reading goes on before anything is written: what is written may fill the other side, and so pause it again.
        here.resume_reading()
        there.resume_reading()
        for side, across in ((self, there), (other, here)):
            early, side._early = side._early, b""
            across.write(early)
        # An end may close both, so it comes after the bytes of both.
        for side, transport in ((self, here), (other, there)):
            if side._ended and not side.eof_received():
                transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)
        elif self.transport is not None:
            self._early += data
            # Python before 3.11.4 reads from a connection that was paused as it was made, and takes it for paused nevertheless:
            # pausing it once more would do nothing.
            self.transport.resume_reading()
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._ended = True
        other = self.other
        if other is None or other.transport is None:
            # Not joined yet: the other side learns it then, and may have an answer.
            return True
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


class ClientSide(ForwardingSide):
    """The end that a client is connected to."""

    def __init__(
        self,
        route: Route,
        tasks: set[asyncio.Task[None]],
        opened: Callable[[asyncio.Transport], None],
        closed: Callable[[asyncio.Transport], None],
    ) -> None:
        """``opened`` is called with the connection, which it may reset, and ``closed`` at its end."""
        super().__init__()
        self._route = route
        self._tasks = tasks
        self._opened = opened
        self._closed = closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        self._opened(self.transport)
        if self.transport.is_closing():
            return
        client = str((transport.get_extra_info("peername") or ("",))[0])
        task = asyncio.get_running_loop().create_task(self._connect(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def connection_lost(self, problem: Exception | None) -> None:
        super().connection_lost(problem)
        if self.transport is not None:
            self._closed(self.transport)

    async def _connect(self, client: str) -> None:
        assert self.transport is not None
        try:
            outgoing = await self._route(client)
        except OSError:
            # No endpoint answered: reset the connection, as a direct one would have been.
            reset(self.transport)
            return
        self.join(outgoing)
