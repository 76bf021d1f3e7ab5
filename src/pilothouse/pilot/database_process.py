"""The database as a child process, in a process group of its own.

    child = DatabaseProcess.begin(start, clock, ended=wake.set)
    exit = await child.stop(asked, grace=60.0)        # the stop signal, and in the end SIGKILL
    child.exit                                        # how it ended, or None

A thread copies its output to ours line by line: a slow reader blocks the database, never the pilot. The exit
is noticed by a pidfd, which also keeps the reaper from collecting the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import IO

from pilothouse.base.clock import Clock
from pilothouse.base.error_lines import is_stack_frame
from pilothouse.pilot.driver import HookFailed, StartCommand
from pilothouse.pilot.process_exit import DatabaseExit, classify_exit, memory_kills
from pilothouse.supervise.signals import StopRequest

LINES = 50
"""How many of its last lines of output are kept."""
HURRIED = 10.0
"""Seconds that a database has to stop after a second stop request."""


class DatabaseProcess:
    """One run of a database."""

    def __init__(
        self, process: subprocess.Popen[bytes], start: StartCommand, clock: Clock, ended: Callable[[], None]
    ) -> None:
        self.pid = process.pid
        self.started = clock.now()
        self._process = process
        self._start = start
        self._clock = clock
        self._on_exit = ended
        self._asked_by: int | None = None
        self._lines: deque[str] = deque(maxlen=LINES)
        self._said: deque[str] = deque(maxlen=LINES)
        """Without stack traces, which may be longer than all lines that are kept."""
        self._kills = memory_kills()
        self._over = asyncio.Event()
        self.exit: DatabaseExit | None = None
        assert process.stdout is not None
        self._pump = threading.Thread(target=self._pass_on, args=(process.stdout,), daemon=True)
        self._pump.start()
        self._descriptor = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._ended)

    @classmethod
    def begin(cls, start: StartCommand, clock: Clock, *, ended: Callable[[], None]) -> DatabaseProcess:
        """``ended`` is called when it has exited. Raises ``HookFailed`` if the program can't be started."""
        try:
            process = subprocess.Popen(
                start.argv,
                env=dict(start.environ),
                cwd=start.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as problem:
            raise HookFailed(
                f"{start.argv[0]} can't be started: {problem.strerror or problem}; is it in the image?"
            ) from None
        return cls(process, start, clock, ended)

    def send(self, number: int) -> None:
        """Send a signal to the database and all processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    async def ended(self) -> DatabaseExit:
        await self._over.wait()
        assert self.exit is not None
        return self.exit

    async def stop(self, asked: StopRequest, grace: float, hurried: float = HURRIED) -> DatabaseExit:
        """Ask it to stop, and kill it after ``grace`` seconds, or ``hurried`` after a second stop request."""
        self._asked_by = self._start.stop_signal
        with contextlib.suppress(ProcessLookupError):
            # It stops its own children.
            self._process.send_signal(self._start.stop_signal)
        over = asyncio.ensure_future(self._over.wait())
        hurry = asyncio.ensure_future(asked.wait(2))
        try:
            await asyncio.wait((over, hurry), timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            if hurry.done() and not over.done():
                await asyncio.wait((over,), timeout=min(grace, hurried))
            if not over.done():
                self.send(signal.SIGKILL)
            return await self.ended()
        finally:
            for task in (over, hurry):
                task.cancel()
            await asyncio.gather(over, hurry, return_exceptions=True)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        returncode = self._process.wait()
        # No process that it has started may outlive it, or keep its output open.
        self.send(signal.SIGKILL)
        self._pump.join(timeout=1.0)
        self.exit = classify_exit(
            returncode,
            asked_by=self._asked_by,
            clean_codes=self._start.clean_codes,
            now=self._clock.now(),
            log=list(self._lines),
            said=list(self._said),
            noise=self._start.noise,
            out_of_memory=memory_kills() > self._kills,
        )
        self._over.set()
        self._on_exit()

    def _pass_on(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                text = line.decode(errors="replace").rstrip("\n")
                self._lines.append(text)
                if not is_stack_frame(text):
                    self._said.append(text)
                try:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
                except (OSError, ValueError):
                    # Our output has no reader; the database must not block on that.
                    continue
