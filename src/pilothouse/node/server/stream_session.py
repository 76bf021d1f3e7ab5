"""An interactive session: a WebSocket joined to the standard streams of a program.

    await run_session(socket, program, options)

A program that prints faster than the client reads waits. The session ends when the program has ended and its
output is sent, with a last message about its exit, or when the client disconnects. A program that reads no
more input may still print. Other errors are reported to the client, and raised.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.server import stream_channels
from pilothouse.node.server.stream_channels import ClientMessage, StdinClosed, StdinData, TerminalResized

PIECE = 32 * 1024

log = logging.getLogger(__name__)


class MessageSocket(Protocol):
    async def receive(self) -> bytes | None:
        """The next message; None once the client has disconnected."""

    async def send(self, message: bytes) -> None:
        """Raises ``ConnectionError`` once the client has disconnected."""


class ProgramOutput(Protocol):
    async def read(self, size: int, /) -> bytes:
        """The next piece; empty at the end."""


class Program(Protocol):
    @property
    def stdout(self) -> ProgramOutput | None:
        """With a terminal, both output streams."""

    @property
    def stderr(self) -> ProgramOutput | None: ...

    async def type(self, data: bytes) -> None:
        """Write to its stdin; waits while it reads none. This and the next two may raise ``OSError``."""

    async def end_input(self) -> None: ...

    def resize(self, rows: int, columns: int) -> None: ...

    async def exited(self) -> int:
        """Wait for its exit code."""


async def run_session(socket: MessageSocket, program: Program, options: StreamOptions) -> bool:
    """Run the session; False if the client disconnected before the program ended."""
    inputs = asyncio.ensure_future(_receive(socket, program, options))
    outputs = asyncio.ensure_future(_send_output(socket, program, options))
    try:
        await asyncio.wait((inputs, outputs), return_when=asyncio.FIRST_COMPLETED)
        if outputs.done():
            await outputs
            return True
        await inputs
        return False
    except ConnectionError:
        return False
    except Exception as problem:
        await _send_failure(socket, f"the node broke this off: {problem!r}")
        raise
    finally:
        for task in (inputs, outputs):
            task.cancel()
        await asyncio.gather(inputs, outputs, return_exceptions=True)


async def _send_failure(socket: MessageSocket, *failure: Any) -> None:
    await socket.send(bytes([stream_channels.ERROR]) + stream_channels.failure(*failure))


async def _receive(socket: MessageSocket, program: Program, options: StreamOptions) -> None:
    """Pass on messages until the client has disconnected."""
    while (message := await socket.receive()) is not None:
        try:
            parsed = stream_channels.parse_message(message)
        except ValueError as problem:
            await _send_failure(socket, str(problem), "BadRequest", 400)
            return
        try:
            await _pass_in(parsed, program, options)
        except OSError as problem:
            log.debug("a program takes no more input: %s", problem)


async def _pass_in(message: ClientMessage | None, program: Program, options: StreamOptions) -> None:
    match message:
        case StdinData(data) if options.stdin:
            await program.type(data)
        case StdinClosed() if options.stdin:
            await program.end_input()
        case TerminalResized(columns, rows) if options.tty:
            program.resize(rows, columns)


async def _send_output(socket: MessageSocket, program: Program, options: StreamOptions) -> None:
    """Send output until the program has ended. Raises ``ConnectionError`` if the client disconnects."""
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
    """Forward a stream. If the client does not want it, read and drop it, or the program would block."""
    prefix = bytes([channel])
    while data := await stream.read(PIECE):
        if wanted:
            await socket.send(prefix + data)
