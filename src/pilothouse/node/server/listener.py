"""Accepts connections to the node's server; unauthenticated callers can't use up the agent's file
descriptors.

    async with NodeListener(sock, tls, server) as listener:
        listener.authenticated(transport)        # from here on the connection stays

At most ``MOST_UNAUTHENTICATED`` connections are open whose callers are not authenticated; the oldest is
closed for the next. Those that have sent nothing are counted apart, so that they only displace each other. A
certificate authenticates with the handshake, a token with the first request.
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
"""Seconds before the next accept when the system is out of files or memory."""
_TCP_INFO_BYTES, _UNACKED = 32, 24
"""The offset of the number of connections in the backlog (``tcpi_unacked``, linux/tcp.h)."""

log = logging.getLogger(__name__)


class NodeListener:
    """Accepts connections within its context, and closes the socket at its end."""

    def __init__(
        self, sock: socket.socket, tls: ssl.SSLContext, protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self._sock = sock
        self._tls = tls
        self._protocol = protocol
        self._handshakes: set[asyncio.Task[None]] = set()
        self._silent: OrderedDict[object, Callable[[], object]] = OrderedDict()
        """How to close each connection that has sent nothing, the oldest first."""
        self._unauthenticated: OrderedDict[object, Callable[[], object]] = OrderedDict()
        """The same for those that have, and are not authenticated."""
        self._turns = 0
        """Passes of the accept loop."""
        self._seen_waiting = -1
        """The pass in which connections were waiting at the last check; -1 if none were."""
        self._accepting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> NodeListener:
        self._sock.setblocking(False)
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
        self._sock.close()

    def authenticated(self, transport: object) -> None:
        """Mark a connection as authenticated: it is not closed for another."""
        self._unauthenticated.pop(transport, None)

    def is_deaf(self) -> bool:
        """Whether connections wait and none has been accepted since the last call, or none ever will be."""
        if self._accepting is not None and self._accepting.done():
            return True
        info = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        waiting = struct.unpack_from("I", info, _UNACKED)[0] > 0
        before, self._seen_waiting = self._seen_waiting, self._turns if waiting else -1
        return waiting and before == self._turns

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._turns += 1
            try:
                connection, _ = await loop.sock_accept(self._sock)
            except ConnectionError:  # The peer has closed it already.
                continue
            except OSError as problem:
                if problem.errno == errno.EBADF:
                    raise
                # Go on after any error: a node that accepts no more seems healthy.
                log.error("failed to accept a connection: %s", problem.strerror)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            task = asyncio.create_task(self._handshake(connection))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)
            _add_bounded(self._silent, connection, task.cancel)

    async def _handshake(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await _readable(connection)
            if (close := self._silent.pop(connection, None)) is not None:
                _add_bounded(self._unauthenticated, connection, close)
            transport, _ = await loop.connect_accepted_socket(
                self._protocol, connection, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as problem:  # TLS errors and timeouts too.
            log.debug("a connection failed: %s", problem)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        else:
            if not transport.get_extra_info("peercert"):
                _add_bounded(self._unauthenticated, transport, transport.abort)
        finally:
            self._silent.pop(connection, None)
            self._unauthenticated.pop(connection, None)


def _add_bounded(
    pool: OrderedDict[object, Callable[[], object]], key: object, close: Callable[[], object]
) -> None:
    pool[key] = close
    while len(pool) > MOST_UNAUTHENTICATED:
        oldest = pool.popitem(last=False)[1]
        try:
            oldest()
        except Exception:
            # asyncio's TLS transports raise various errors if they have closed meanwhile.
            log.debug("a connection could not be closed for another", exc_info=True)


async def _readable(connection: socket.socket) -> None:
    """Wait until the peer has sent something, or has closed."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
