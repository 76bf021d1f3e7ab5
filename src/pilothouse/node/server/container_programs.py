"""The programs of containers, for exec and attach sessions.

A common interface for programs started inside a container, with pipes or a terminal, and for the container's
own program, with a socket.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.interfaces import ExecSession, RunningContainer
from pilothouse.node.server.exec_sessions import ProgramHandle
from pilothouse.node.server.pod_pages import RequestRefused
from pilothouse.supervise.attach import STDERR, STDOUT, Attached
from pilothouse.supervise.launch_spec import LaunchError

_MOST_WAITING = 16
END_OF_INPUT = b"\x04"
"""Ctrl-D, which ends the input at a terminal."""


class ContainerPrograms:
    """Implements ``exec_sessions.ProgramStarter``."""

    async def start(self, container: RunningContainer, options: StreamOptions) -> ProgramHandle:
        try:
            entered = await container.enter(options.command, tty=options.tty, stdin=options.stdin)
            return ExecProgram(entered, options.tty)
        except LaunchError as problem:
            raise RequestRefused(400, f"{problem.reason}: {problem.message}") from None

    async def attach(self, container: RunningContainer, options: StreamOptions) -> ProgramHandle:
        try:
            return AttachedProgram(await container.attach())
        except LaunchError as problem:
            raise RequestRefused(400, f"{problem.reason}: {problem.message}") from None


class ExecProgram:
    """A program that was started inside a container. It ends with the session."""

    def __init__(self, entered: ExecSession, tty: bool) -> None:
        self._entered = entered
        self._tty = tty
        self.stdout = entered.stdout
        self.stderr = entered.stderr

    async def type(self, data: bytes) -> None:
        stdin = self._entered.stdin
        if stdin is None or stdin.is_closing():
            return
        # The program may end without reading its input.
        with suppress(ConnectionError):
            stdin.write(data)
            await stdin.drain()

    async def end_input(self) -> None:
        stdin = self._entered.stdin
        if stdin is None:
            return
        if self._tty:
            await self.type(END_OF_INPUT)
        else:
            stdin.close()

    def resize(self, rows: int, columns: int) -> None:
        self._entered.resize(rows, columns)

    async def exited(self) -> int:
        return await self._entered.exited()

    async def leave(self) -> None:
        await self._entered.close()


class OutputQueue:
    """A bounded queue of output."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self._ended = asyncio.Event()

    async def put(self, data: bytes) -> None:
        await self._queue.put(data)

    def end(self) -> None:
        self._ended.set()

    async def read(self, size: int = -1) -> bytes:
        """The next piece; empty at the end."""
        if self._queue.empty() and not self._ended.is_set():
            getting = asyncio.ensure_future(self._queue.get())
            ending = asyncio.ensure_future(self._ended.wait())
            try:
                await asyncio.wait((getting, ending), return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    return getting.result()
            finally:
                getting.cancel()
                ending.cancel()
        return b"" if self._queue.empty() else self._queue.get_nowait()


class AttachedProgram:
    """A container's own program. It outlives the session."""

    def __init__(self, attached: Attached) -> None:
        self._attached = attached
        self.stdout = OutputQueue()
        self.stderr = OutputQueue()
        self._reading = asyncio.ensure_future(self._read())

    async def type(self, data: bytes) -> None:
        await self._attached.send(data)

    async def end_input(self) -> None:
        self._attached.end_input()

    def resize(self, rows: int, columns: int) -> None:
        self._attached.resize(rows, columns)

    async def exited(self) -> int:
        # Not its exit code: kubectl would exit with it, though no program of its own failed.
        await asyncio.shield(self._reading)
        return 0

    async def leave(self) -> None:
        self._reading.cancel()
        await self._attached.aclose()

    async def _read(self) -> None:
        streams = {STDOUT: self.stdout, STDERR: self.stderr}
        try:
            async for channel, data in self._attached:
                if data and (stream := streams.get(channel)) is not None:
                    await stream.put(data)
        finally:
            for stream in streams.values():
                stream.end()
