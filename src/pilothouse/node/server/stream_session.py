"""A person and a program, joined over a WebSocket.

    await run_session(socket, program, options)

ProgramOutput goes out as fast as the client takes it, and a program that prints faster waits, as with any pipe. The talk ends when
the program has ended and all it printed is sent; the last message says how. A client that goes away ends it too: what then
becomes of the program is for whoever started it to say.

A program that takes no more input is no client that has gone: it may have closed it, or ended just now, and what it still
prints and how it ends is told all the same. Anything else that goes wrong here is told to the client, and raised.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.server import stream_channels
from pilothouse.node.server.stream_channels import Heard, StdinClosed, StdinData, TerminalResized

PIECE = 32 * 1024

log = logging.getLogger(__name__)


class MessageSocket(Protocol):
    """The WebSocket, as far as it matters here."""

    async def receive(self) -> bytes | None:
        """The next message; None once the client has gone."""

    async def send(self, message: bytes) -> None:
        """Raises ``ConnectionError`` once the client has gone."""


class ProgramOutput(Protocol):
    """Something that is printed."""

    async def read(self, size: int, /) -> bytes:
        """Some more of it; empty at the end."""
        ...


class Program(Protocol):
    """Something that runs and can be talked to."""

    @property
    def stdout(self) -> ProgramOutput | None:
        """With a terminal, everything that it prints."""
        ...

    @property
    def stderr(self) -> ProgramOutput | None: ...

    async def type(self, data: bytes) -> None:
        """Input for it; waits while it takes none. This and the next two may raise ``OSError`` if it takes no more."""
        ...

    async def end_input(self) -> None: ...

    def resize(self, rows: int, columns: int) -> None: ...

    async def exited(self) -> int:
        """Its exit code."""
        ...


async def run_session(socket: MessageSocket, program: Program, options: StreamOptions) -> bool:
    """Pass everything on; false if the client went away before the program ended."""
    hearing = asyncio.ensure_future(_hear(socket, program, options))
    telling = asyncio.ensure_future(_tell(socket, program, options))
    try:
        await asyncio.wait((hearing, telling), return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            await telling
            return True
        await hearing
        return False
    except ConnectionError:
        return False
    except Exception as problem:
        await socket.send(
            bytes([stream_channels.ERROR]) + stream_channels.failure(f"the node broke this off: {problem!r}")
        )
        raise
    finally:
        for task in (hearing, telling):
            task.cancel()
        await asyncio.gather(hearing, telling, return_exceptions=True)


async def _hear(socket: MessageSocket, program: Program, options: StreamOptions) -> None:
    """Until the client has gone."""
    while (message := await socket.receive()) is not None:
        try:
            heard = stream_channels.parse_message(message)
        except ValueError as problem:
            await socket.send(
                bytes([stream_channels.ERROR]) + stream_channels.failure(str(problem), "BadRequest", 400)
            )
            return
        try:
            await _pass_in(heard, program, options)
        except OSError as problem:
            log.debug("a program takes no more input: %s", problem)


async def _pass_in(heard: Heard | None, program: Program, options: StreamOptions) -> None:
    match heard:
        case StdinData(data) if options.stdin:
            await program.type(data)
        case StdinClosed() if options.stdin:
            await program.end_input()
        case TerminalResized(columns, rows) if options.tty:
            program.resize(rows, columns)


async def _tell(socket: MessageSocket, program: Program, options: StreamOptions) -> None:
    """Until the program has ended. Raises ``ConnectionError`` if the client goes first."""
    # Clients take the first message for the sign that all is connected.
    await socket.send(bytes([stream_channels.STDOUT]))
    gone = False
    try:
        async with asyncio.TaskGroup() as streams:
            for channel, stream, wanted in (
                (stream_channels.STDOUT, program.stdout, options.stdout),
                (stream_channels.STDERR, program.stderr, options.stderr),
            ):
                if stream is not None:
                    streams.create_task(_pass_on(socket, channel, stream, wanted))
            code = await program.exited()
    except* ConnectionError:
        gone = True
    if gone:
        raise ConnectionError("the client went away amid the output")
    await socket.send(bytes([stream_channels.ERROR]) + stream_channels.outcome(code))


async def _pass_on(socket: MessageSocket, channel: int, stream: ProgramOutput, wanted: bool) -> None:
    """What nobody wants is read all the same, or the program would wait for ever."""
    prefix = bytes([channel])
    while data := await stream.read(PIECE):
        if wanted:
            await socket.send(prefix + data)
