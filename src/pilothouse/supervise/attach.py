"""The client side of attach: a container's output, its input, the size of its terminal.

    async with contextlib.aclosing(await attach(folder)) as attached:
        attached.send(b"SELECT 1;\\n")
        async for channel, data in attached:       # STDOUT, STDERR; the last is EXIT
            ...

The server side is the shim's socket `attach.sock`. A frame is a byte for the channel, four bytes of length,
big-endian, and the data; channels have the numbers of Kubernetes' streams. A client that does not read is
disconnected after a second.

Input is written through a duplicate descriptor: a transport whose write fails, since the program has ended,
would drop the program's last output unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from pilothouse.supervise import container_records
from pilothouse.supervise.launch_spec import ContainerExit, LaunchError

STDIN, STDOUT, STDERR, EXIT, RESIZE, CLOSE_STDIN = range(6)
_HEADER = struct.Struct(">BI")
_CREDENTIALS = struct.Struct("iII")
"""Of the peer: process, user, group."""


class Attached:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, out: socket.socket
    ) -> None:
        self._reader = reader
        self._writer = writer
        """Only kept: the connection closes when it is garbage-collected."""
        self._out = out
        self._turn = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()
        self.exit: ContainerExit | None = None
        """How the container ended, once received."""

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        """Channel and data, until the container has ended or the connection is closed."""
        try:
            while True:
                channel, length = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
                data = await self._reader.readexactly(length)
                if channel == EXIT:
                    self.exit = msgspec.json.decode(data, type=ContainerExit)
                yield channel, data
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    async def send(self, data: bytes) -> None:
        """Write to standard input; waits while the program does not read."""
        for start in range(0, len(data), 65536):
            await self._put(STDIN, data[start : start + 65536])

    def end_input(self) -> None:
        """End the input; the program's own ends only with `stdinOnce` or a terminal."""
        self._put(CLOSE_STDIN, b"")

    def resize(self, rows: int, columns: int) -> None:
        self._put(RESIZE, f"{rows} {columns}".encode())

    async def aclose(self) -> None:
        for write in self._writes:
            write.cancel()
        await asyncio.gather(*self._writes, return_exceptions=True)
        self._out.close()
        self._writer.close()

    def _put(self, channel: int, data: bytes) -> asyncio.Task[None]:
        write = asyncio.create_task(self._write(_HEADER.pack(channel, len(data)) + data))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        return write

    async def _write(self, frame: bytes) -> None:
        async with self._turn:
            with contextlib.suppress(ConnectionError):  # It has ended, which reading reports.
                await asyncio.get_running_loop().sock_sendall(self._out, frame)


async def attach(folder: Path) -> Attached:
    """Raises LaunchError: NotRunning, or MachineRefused if another user's process listens there."""
    connection = connect(folder, container_records.ATTACH)
    try:
        connection.setblocking(False)
        out = connection.dup()
        out.setblocking(False)
        try:
            reader, writer = await asyncio.open_unix_connection(sock=connection)
        except BaseException:
            out.close()
            raise
        return Attached(reader, writer, out)
    except BaseException:
        connection.close()
        raise


def connect(folder: Path, name: str) -> socket.socket:
    """Connect to a socket of a container's shim. Raises LaunchError as `attach` does."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A socket's address holds 108 bytes, which a path soon exceeds.
        held = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{held}/{name}")
        finally:
            os.close(held)
        _check_owner(connection, folder / name)
        return connection
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        if name != container_records.ATTACH and (folder / container_records.ATTACH).exists():
            why = "the container was started by an earlier release, which can't run further programs in it"
            raise LaunchError("NotRunning", f"{why}; restart it") from None
        why = "the container is not running, so there is nothing to attach to"
        raise LaunchError("NotRunning", why) from None
    except BaseException:
        connection.close()
        raise


def _check_owner(connection: socket.socket, path: Path) -> None:
    """Check that the peer is a shim of ours. Raises LaunchError."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(peer)
    if user not in (0, os.geteuid()):
        why = f"{path} belongs to process {pid} of user {user}, which is no shim of this agent"
        raise LaunchError("MachineRefused", why)
