"""A person and a program, joined over a WebSocket.

    await talk(socket, program, options)

Output goes out as fast as the client takes it, and a program that prints faster waits, as with any pipe. The talk ends when
the program has ended and all it printed is sent; the last message says how. A client that goes away ends it too: what then
becomes of the program is for whoever started it to say.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.serving import channels
from pilothouse.node.serving.channels import NoMore, Resized, Typed

PIECE = 32 * 1024


class Socket(Protocol):
    """The WebSocket, as far as it matters here."""

    async def receive(self) -> bytes | None:
        """The next message; None once the client has gone."""

    async def send(self, message: bytes) -> None:
        """Raises ``ConnectionError`` once the client has gone."""


class Output(Protocol):
    """Something that is printed."""

    async def read(self, size: int, /) -> bytes:
        """Some more of it; empty at the end."""
        ...


class Program(Protocol):
    """Something that runs and can be talked to."""

    @property
    def stdout(self) -> Output | None:
        """With a terminal, everything that it prints."""
        ...

    @property
    def stderr(self) -> Output | None: ...

    async def type(self, data: bytes) -> None:
        """Input for it; waits while it takes none."""
        ...

    async def end_input(self) -> None: ...

    def resize(self, rows: int, columns: int) -> None: ...

    async def exited(self) -> int:
        """Its exit code."""
        ...


async def talk(socket: Socket, program: Program, options: StreamOptions) -> bool:
    """Pass everything on; false if the client went away before the program ended."""
    hearing = asyncio.ensure_future(_hear(socket, program, options))
    telling = asyncio.ensure_future(_tell(socket, program, options))
    try:
        await asyncio.wait((hearing, telling), return_when=asyncio.FIRST_COMPLETED)
        if not telling.done():
            return False
        await telling
        return True
    except ConnectionError:
        return False
    finally:
        for task in (hearing, telling):
            task.cancel()
        await asyncio.gather(hearing, telling, return_exceptions=True)


async def _hear(socket: Socket, program: Program, options: StreamOptions) -> None:
    """Until the client has gone."""
    while (message := await socket.receive()) is not None:
        try:
            heard = channels.understand(message)
        except ValueError as problem:
            await socket.send(bytes([channels.ERROR]) + channels.failure(str(problem), "BadRequest", 400))
            return
        match heard:
            case Typed(data) if options.stdin:
                await program.type(data)
            case NoMore() if options.stdin:
                await program.end_input()
            case Resized(columns, rows) if options.tty:
                program.resize(rows, columns)


async def _tell(socket: Socket, program: Program, options: StreamOptions) -> None:
    """Until the program has ended."""
    # Clients take the first message for the sign that all is connected.
    await socket.send(bytes([channels.STDOUT]))
    async with asyncio.TaskGroup() as streams:
        for channel, stream, wanted in (
            (channels.STDOUT, program.stdout, options.stdout),
            (channels.STDERR, program.stderr, options.stderr),
        ):
            if stream is not None:
                streams.create_task(_pass_on(socket, channel, stream, wanted))
        code = await program.exited()
    await socket.send(bytes([channels.ERROR]) + channels.outcome(code))


async def _pass_on(socket: Socket, channel: int, stream: Output, wanted: bool) -> None:
    """What nobody wants is read all the same, or the program would wait for ever."""
    prefix = bytes([channel])
    while data := await stream.read(PIECE):
        if wanted:
            await socket.send(prefix + data)
