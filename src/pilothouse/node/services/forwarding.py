"""Forwards bytes between two connections, both ways, until both sides have ended.

    server = await loop.create_server(lambda: ClientSide(route, tasks, opened, closed), sock=listening)

Until the two are joined, at most one read of data is buffered. A slow side pauses the other (the transport's
watermarks), so memory is bounded. The end of one direction is passed on as such: a client that has sent
everything still gets the answer. A broken connection resets the other, also before they are joined.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import cast

Route = Callable[[str], Awaitable["ForwardingSide"]]
"""Connects to an endpoint for a client of this address. Raises ``OSError``."""


def reset(transport: asyncio.Transport) -> None:
    """Abort a connection with a reset, so that the peer knows that data is missing."""
    if (connection := transport.get_extra_info("socket")) is not None and not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class ForwardingSide(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: ForwardingSide | None = None
        self._early = b""
        self._ended = False

    def join(self, other: ForwardingSide) -> None:
        """Join two connected sides; what either has received by now is passed on, also its end."""
        here, there = self.transport, other.transport
        assert here is not None
        assert there is not None
        if here.is_closing() or there.is_closing():
            reset(here)
            reset(there)
            return
        self.other, other.other = other, self
        # Resume reading before writing: what is written may fill the other side, and so pause it again.
        here.resume_reading()
        there.resume_reading()
        for side, across in ((self, there), (other, here)):
            early, side._early = side._early, b""
            across.write(early)
        # Ends after data: an end may close both.
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
            # Python before 3.11.4 reads from a connection that was paused as it was made, while it counts as
            # paused: pausing it again would do nothing.
            self.transport.resume_reading()
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._ended = True
        other = self.other
        if other is None or other.transport is None:
            # Not joined yet: the other side learns of it then, and may still answer.
            return True
        if other.transport.can_write_eof() and not other.transport.is_closing():
            other.transport.write_eof()
        # Both have ended.
        if other._ended:
            other.transport.close()
            return False
        return True

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        other = self.other.transport if self.other is not None else None
        if other is not None and not other.is_closing():
            other.resume_reading()

    def connection_lost(self, problem: Exception | None) -> None:
        other, self.other = self.other, None
        if other is not None and other.transport is not None:
            if problem is not None:
                reset(other.transport)
            else:
                other.transport.close()


class ClientSide(ForwardingSide):
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
