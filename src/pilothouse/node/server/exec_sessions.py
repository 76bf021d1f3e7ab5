"""Exec and attach sessions: a program run inside a container, or the container's own program.

A program of ``exec`` is killed when its client disconnects; a program that was attached to goes on. A session
that can't begin is reported within the WebSocket: if the upgrade were refused, kubectl would fall back and
show another error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.interfaces import RunningContainer
from pilothouse.node.server import stream_channels
from pilothouse.node.server.pod_pages import ContainerPath, PodPages, RequestRefused
from pilothouse.node.server.stream_session import MessageSocket, Program, run_session


class ProgramHandle(Program, Protocol):
    """A program that a session can release."""

    async def leave(self) -> None:
        """End the session with the program. Idempotent."""


class ProgramStarter(Protocol):
    async def start(self, container: RunningContainer, options: StreamOptions) -> ProgramHandle:
        """Run the command inside a container; it ends with the session. Raises ``RequestRefused``."""

    async def attach(self, container: RunningContainer, options: StreamOptions) -> ProgramHandle:
        """The container's own program, which outlives the session. Raises ``RequestRefused``."""


_Start = Callable[[RunningContainer, StreamOptions], Awaitable[ProgramHandle]]


class ExecSessions:
    def __init__(self, pages: PodPages, programs: ProgramStarter) -> None:
        self._pages = pages
        self._programs = programs

    async def run(self, socket: MessageSocket, place: ContainerPath, options: StreamOptions) -> None:
        await self._run(socket, place, options, self._programs.start)

    async def attach(self, socket: MessageSocket, place: ContainerPath, options: StreamOptions) -> None:
        await self._run(socket, place, options, self._programs.attach)

    async def _run(
        self, socket: MessageSocket, place: ContainerPath, options: StreamOptions, start: _Start
    ) -> None:
        try:
            found = self._pages.find(place)
            if found.container is None:
                why = f'container "{place.container}" of pod "{place.pod}" is not running'
                raise RequestRefused(400, why)
            program = await start(found.container, options)
        except RequestRefused as problem:
            failure = stream_channels.failure(str(problem), "BadRequest", problem.status)
            await socket.send(bytes([stream_channels.ERROR]) + failure)
            return
        try:
            await run_session(socket, program, options)
        finally:
            await program.leave()
