"""A program that the update agent runs itself.

    program = SupervisedProgram(profile, folder)
    async with asyncio.TaskGroup() as group:
        group.create_task(program.run())          # started, or adopted; started again when it ends
        await program.restart()

It outlives the agent, as containers do, and the next agent adopts it. Each start has a folder with the digest
of the file that was started.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from pathlib import Path
from typing import Final

from pilothouse.base.backoff import Backoff
from pilothouse.node.updating.installed_program import file_digest
from pilothouse.node.updating.managed_program import ManagedProgram, ProgramError
from pilothouse.node.updating.update_profile import UpdateProfile
from pilothouse.supervise import containers
from pilothouse.supervise.containers import Container, StillRunning
from pilothouse.supervise.launch_spec import ContainerExit, LaunchError, LaunchSpec, LogPolicy

_BACKOFF: Final = Backoff(first=0.5, factor=2.0, longest=30.0)
_DIGEST: Final = "digest"
_STEADY: Final = 60.0
"""Seconds after which a program that ends is started again without delay."""

log = logging.getLogger(__name__)


class SupervisedProgram(ManagedProgram):
    supervised = True

    def __init__(self, profile: UpdateProfile, folder: Path) -> None:
        super().__init__(profile)
        self._folder = folder
        self._container: Container | None = None
        self._adopted = False
        self._lock = asyncio.Lock()
        """Held while it is started or stopped."""
        self._exits = 0
        self._last_exit = ""
        self._restarted = asyncio.Event()

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                async with self._lock:
                    container = self._container or await self._adopt() or await self._start()
                ended = await container.exited()
                how = _explained(ended)
            except (LaunchError, OSError) as problem:
                container, ended, how = None, None, f"it can't be started: {problem}"
            async with self._lock:
                if self._container is not container:
                    # It was restarted meanwhile.
                    continue
                self._container = None
                self._exits, self._last_exit = self._exits + 1, how
            steady = ended is not None and ended.finished - ended.started >= _STEADY
            failures = 1 if steady else failures + 1
            log.warning("%s: %s; it is started again", self._profile.path, how)
            self._restarted.clear()
            try:
                async with asyncio.timeout(_BACKOFF.after(failures)):
                    await self._restarted.wait()
                failures = 0
            except TimeoutError:
                continue

    async def restart(self) -> None:
        async with self._lock:
            current = self._container or await self._adopt()
            try:
                if current is not None:
                    await current.stop(signal.SIGTERM, self._profile.seconds("stop_grace"))
                self._container = None
                self._exits, self._last_exit = 0, ""
                await self._start()
            except (LaunchError, StillRunning, OSError) as problem:
                raise ProgramError(f"it can't be restarted: {problem}") from None
            finally:
                self._restarted.set()

    async def running_digest(self) -> str:
        async with self._lock:
            current = self._container or await self._adopt()
        if current is None:
            return ""
        try:
            return (current.folder / _DIGEST).read_text()
        except FileNotFoundError:
            return ""

    def exits(self) -> tuple[int, str]:
        return self._exits, self._last_exit

    async def _adopt(self) -> Container | None:
        """What an earlier agent has started, if it still runs."""
        if self._adopted:
            return None
        for number in reversed(self._starts()):
            found = await containers.adopt(self._folder / str(number))
            if isinstance(found, Container):
                self._container = found
                break
        self._adopted = True
        return self._container

    def _starts(self) -> list[int]:
        if not self._folder.exists():
            return []
        return sorted(int(each.name) for each in self._folder.iterdir() if each.name.isdecimal())

    async def _start(self) -> Container:
        earlier = self._starts()
        folder = self._folder / str(earlier[-1] + 1 if earlier else 0)
        folder.mkdir(mode=0o700, parents=True)
        for number in earlier:
            await asyncio.to_thread(shutil.rmtree, self._folder / str(number), ignore_errors=True)
        profile = self._profile
        launch = LaunchSpec(
            argv=profile.expanded(profile.run),
            env={**os.environ, **profile.environment},
            log=LogPolicy(str(self._folder / "log")),
        )
        before = _identity(profile.path)
        digest = await asyncio.to_thread(file_digest, profile.path)
        container = await containers.start(folder, launch)
        if _identity(profile.path) == before:
            # Else it was replaced at this moment, and either file may run.
            (folder / _DIGEST).write_text(digest)
        self._container = container
        return container


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _explained(ended: ContainerExit) -> str:
    return f"it ended by signal {ended.signal}" if ended.signal else f"it ended with exit code {ended.code}"
