"""Sessions: a program run inside a container for somebody far away, or the container's own program talked to.

A client of ``exec`` that goes away takes its program along: nobody would ever see what it does, and nobody could end it. What
was attached to lives on.

A session that can't begin is told within the WebSocket, as the end of one: kubectl would try another way if the
connection itself were refused, and show what that says.
"""

from __future__ import annotations

from typing import Protocol

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.parts import Container
from pilothouse.node.serving import channels
from pilothouse.node.serving.pages import Pages, Place, Refused
from pilothouse.node.serving.talking import Program, Socket, talk


class Leaving(Program, Protocol):
    """A program that can be let go of."""

    async def leave(self) -> None:
        """Nobody listens any more. Does nothing the second time."""
        ...


class Programs(Protocol):
    """How programs are reached."""

    async def start(self, container: Container, options: StreamOptions) -> Leaving:
        """Run the command inside a container; it ends when it is left. Raises ``Refused``."""
        ...

    async def attach(self, container: Container, options: StreamOptions) -> Leaving:
        """The container's own program, which goes on when it is left. Raises ``Refused``."""
        ...


class Sessions:
    """Everybody who talks to a program of this node."""

    def __init__(self, pages: Pages, programs: Programs) -> None:
        self._pages = pages
        self._programs = programs

    async def run(self, socket: Socket, place: Place, options: StreamOptions) -> None:
        """``exec``."""
        try:
            program = await self._programs.start(self._running(place), options)
        except Refused as problem:
            await _refuse(socket, problem)
            return
        await _hold(socket, program, options)

    async def attach(self, socket: Socket, place: Place, options: StreamOptions) -> None:
        """``attach``."""
        try:
            program = await self._programs.attach(self._running(place), options)
        except Refused as problem:
            await _refuse(socket, problem)
            return
        await _hold(socket, program, options)

    def _running(self, place: Place) -> Container:
        found = self._pages.find(place)
        if found.container is None:
            raise Refused(400, f'container "{place.container}" of pod "{place.pod}" is not running')
        return found.container


async def _hold(socket: Socket, program: Leaving, options: StreamOptions) -> None:
    try:
        await talk(socket, program, options)
    finally:
        await program.leave()


async def _refuse(socket: Socket, problem: Refused) -> None:
    await socket.send(bytes([channels.ERROR]) + channels.failure(str(problem), "BadRequest", problem.status))
