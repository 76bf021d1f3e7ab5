"""Accepts connections to the node's server; unauthenticated callers can't use up the agent's file descriptors.

    async with NodeListener(sock, tls, server) as listener:
        listener.authenticated(transport)        # from here on the connection stays

Whoever reaches the port may open connections, pods on the same machine too. Until a caller has shown who it is, its
connection is one of at most ``MOST_UNAUTHENTICATED``; the oldest of them is closed for the next. Those that have sent nothing yet are
counted by themselves, so that they make room for each other only. Who shows a certificate is known with the handshake, who shows a
token with its first request.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import struct
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType

MOST_UNAUTHENTICATED = 64
HANDSHAKE_SECONDS = 10.0
PAUSE_SECONDS = 1.0
"""Before the next connection is accepted when the system has no more files, or memory, for one."""
_TCP_INFO_BYTES, _UNACKED = 32, 24
"""Where a listening socket has the number of connections that wait to be accepted (``tcpi_unacked``, linux/tcp.h)."""

log = logging.getLogger(__name__)


class NodeListener:
    """Accepts connections within its context, and closes the socket at its end."""

    def __init__(
        self, door: socket.socket, tls: ssl.SSLContext, protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self._door = door
        self._tls = tls
        self._protocol = protocol
        self._handshakes: set[asyncio.Task[None]] = set()
        self._silent: OrderedDict[object, Callable[[], object]] = OrderedDict()
        """How to close each connection that has sent nothing, the oldest first."""
        self._unauthenticated: OrderedDict[object, Callable[[], object]] = OrderedDict()
        """The same for those that have, and have not shown who they are."""
        self._turns = 0
        """How often the accepting came round."""
        self._seen_waiting = -1
        """The turn in which connections were waiting at the last check; -1 if none were."""
        self._accepting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> NodeListener:
        self._door.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._accepting is not None
        tasks = (self._accepting, *self._handshakes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._door.close()

    def authenticated(self, transport: object) -> None:
        """Its caller is known: the connection is not closed for another."""
        self._unauthenticated.pop(transport, None)

    def is_deaf(self) -> bool:
        """Whether connections wait and none has been accepted since this was last asked, or none ever will be."""
        if self._accepting is not None and self._accepting.done():
            return True
        info = self._door.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        waiting = struct.unpack_from("I", info, _UNACKED)[0] > 0
        before, self._seen_waiting = self._seen_waiting, self._turns if waiting else -1
        return waiting and before == self._turns

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._turns += 1
            try:
                connection, _ = await loop.sock_accept(self._door)
            except ConnectionError:  # Its other end has gone already.
                continue
            except OSError as problem:
                if problem.errno == errno.EBADF:
                    raise
                # Of whatever kind: a node that accepts no more is deaf, and looks well.
                log.error("no connection can be accepted: %s", problem.strerror)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            task = asyncio.create_task(self._handshake(connection))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)
            _remember(self._silent, connection, task.cancel)

    async def _handshake(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await _readable(connection)
            if (close := self._silent.pop(connection, None)) is not None:
                _remember(self._unauthenticated, connection, close)
            transport, _ = await loop.connect_accepted_socket(
                self._protocol, connection, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as problem:  # Of TLS too, and that it took too long.
            log.debug("a connection did not come about: %s", problem)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        else:
            if not transport.get_extra_info("peercert"):
                _remember(self._unauthenticated, transport, transport.abort)
        finally:
            self._silent.pop(connection, None)
            self._unauthenticated.pop(connection, None)


def _remember(
    pool: OrderedDict[object, Callable[[], object]], key: object, close: Callable[[], object]
) -> None:
    pool[key] = close
    while len(pool) > MOST_UNAUTHENTICATED:
        oldest = pool.popitem(last=False)[1]
        try:
            oldest()
        except Exception:
            # One that has ended meanwhile: asyncio's TLS transports can't be aborted then, and say so in many ways.
            log.debug("a connection could not be closed for another", exc_info=True)


async def _readable(connection: socket.socket) -> None:
    """Wait until the other end has sent something, or has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
