"""Exec and attach sessions: a program run inside a container, or the container's own program.

A client of ``exec`` that goes away takes its program along: nobody would ever see what it does, and nobody could end it. What
was attached to lives on.

A session that can't begin is told within the WebSocket, as the end of one: kubectl would try another way if the
connection itself were refused, and show what that says.
"""

from __future__ import annotations

from typing import Protocol

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.interfaces import RunningContainer
from pilothouse.node.server import stream_channels
from pilothouse.node.server.pod_pages import ContainerPath, PodPages, RequestRefused
from pilothouse.node.server.stream_session import MessageSocket, Program, run_session


class ProgramHandle(Program, Protocol):
    """A program that can be let go of."""

    async def leave(self) -> None:
        """End the session with the program. Idempotent."""


class ProgramStarter(Protocol):
    """How programs are reached."""

    async def start(self, container: RunningContainer, options: StreamOptions) -> ProgramHandle:
        """Run the command inside a container; it ends when it is left. Raises ``RequestRefused``."""

    async def attach(self, container: RunningContainer, options: StreamOptions) -> ProgramHandle:
        """The container's own program, which goes on when it is left. Raises ``RequestRefused``."""


class ExecSessions:
    """Everybody who talks to a program of this node."""

    def __init__(self, pages: PodPages, programs: ProgramStarter) -> None:
        self._pages = pages
        self._programs = programs

    async def run(self, socket: MessageSocket, place: ContainerPath, options: StreamOptions) -> None:
        """``exec``."""
        try:
            program = await self._programs.start(self._running(place), options)
        except RequestRefused as problem:
            await _refuse(socket, problem)
            return
        await _hold(socket, program, options)

    async def attach(self, socket: MessageSocket, place: ContainerPath, options: StreamOptions) -> None:
        """``attach``."""
        try:
            program = await self._programs.attach(self._running(place), options)
        except RequestRefused as problem:
            await _refuse(socket, problem)
            return
        await _hold(socket, program, options)

    def _running(self, place: ContainerPath) -> RunningContainer:
        found = self._pages.find(place)
        if found.container is None:
            raise RequestRefused(400, f'container "{place.container}" of pod "{place.pod}" is not running')
        return found.container


async def _hold(socket: MessageSocket, program: ProgramHandle, options: StreamOptions) -> None:
    try:
        await run_session(socket, program, options)
    finally:
        await program.leave()


async def _refuse(socket: MessageSocket, problem: RequestRefused) -> None:
    await socket.send(
        bytes([stream_channels.ERROR]) + stream_channels.failure(str(problem), "BadRequest", problem.status)
    )
