"""Connections of probes and hooks to containers, which are not trusted with the agent's time or memory.

    async with connected("127.8.1.2", 8443, tls=True) as connection:
        await connection.write(b"GET / HTTP/1.1\\r\\n...")
        data = await connection.read(4096)

At most ``MAX_RECEIVED`` bytes are read, TLS included: the handshake is done here, since the event loop's
would go on through any number of messages without data. Certificates are not verified.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache, partial
from ipaddress import ip_address
from typing import Final, TypeVar

MAX_RECEIVED: Final = 256 * 1024
_BUFFER: Final = 16 * 1024
_LOOKUPS: Final = 4
_LOCAL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
_LOCAL_LOOKUP: Final = frozenset({socket.EAI_MEMORY, socket.EAI_SYSTEM})
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL"
"""As Go's client below TLS 1.3. With DHE the server could choose a prime that takes seconds."""

_Result = TypeVar("_Result")


class DialError(Exception):
    """The connection failed; the message is as kubelet's."""


class ResultUnknown(Exception):
    """The machine lacks files, buffers or ports: the health is unknown. Kubelet drops such results."""


class ReceivedTooMuch(Exception):
    """The peer has sent more than ``MAX_RECEIVED`` bytes."""


class ProbeConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._left = MAX_RECEIVED
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None

    async def start_tls(self, host: str) -> None:
        """Raises ``OSError`` and ``ReceivedTooMuch``."""
        self._tls = tls = _context().wrap_bio(self._received, self._to_send, server_hostname=host)
        await self._carry_out(tls.do_handshake)

    async def read(self, n: int, /) -> bytes:
        """Up to ``n`` bytes; empty at the end. Raises ``OSError`` and ``ReceivedTooMuch``."""
        if self._tls is None:
            return await self._receive(n)
        try:
            return await self._carry_out(partial(self._tls.read, n))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    async def write(self, data: bytes) -> None:
        """Raises ``OSError`` and ``ReceivedTooMuch``."""
        if self._tls is None:
            self._writer.write(data)
        else:
            await self._carry_out(partial(self._tls.write, data))
        await self._writer.drain()

    async def _receive(self, n: int) -> bytes:
        if not self._left:
            raise ReceivedTooMuch(f"more than {MAX_RECEIVED} bytes were sent")
        data = await self._reader.read(min(n, self._left))
        self._left -= len(data)
        return data

    async def _carry_out(self, act: Callable[[], _Result]) -> _Result:
        """Run a TLS operation, with as many messages in both directions as it needs."""
        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                pass
            finally:
                if self._to_send.pending:
                    self._writer.write(self._to_send.read())
            if data := await self._receive(_BUFFER):
                self._received.write(data)
            else:
                self._received.write_eof()


@asynccontextmanager
async def connected(host: str, port: int, *, tls: bool = False) -> AsyncIterator[ProbeConnection]:
    """Raises ``DialError``, ``ResultUnknown``, and where TLS fails ``OSError`` and ``ReceivedTooMuch``."""
    reader, writer = await _dial(host, port)
    try:
        connection = ProbeConnection(reader, writer)
        if tls:
            await connection.start_tls(host)
        yield connection
    finally:
        # At once: a peer that reads nothing would keep it open.
        writer.transport.abort()


async def _dial(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    problem: OSError | None = None
    for address in await _addresses(host):
        try:
            return await asyncio.open_connection(address, port, limit=_BUFFER)
        except OSError as error:
            problem = problem or error
    code = problem.errno if problem is not None else None
    why = os.strerror(code).lower() if code else str(problem or "no address")
    message = f"dial tcp {host}:{port}: connect: {why}"
    if code in _LOCAL:
        raise ResultUnknown(message)
    raise DialError(message)


async def _addresses(host: str) -> list[str]:
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    # Not in the loop's default threads: slow name servers of a pod's choice would block the agent's work.
    lookup = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(_lookups(), lookup)
    except socket.gaierror as problem:
        message = f"dial tcp: lookup {host}: {problem.strerror}"
        if problem.errno in _LOCAL_LOOKUP:
            raise ResultUnknown(message) from None
        raise DialError(message) from None
    except ValueError:
        raise DialError(f"dial tcp: lookup {host}: no such host") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


@cache
def _lookups() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="probe-lookup")


@cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(_CIPHERS)
    return context
