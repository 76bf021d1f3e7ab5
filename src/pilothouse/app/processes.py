"""The processes of a control plane on one machine, each under a supervisor.

    supervisor = ProcessSupervisor(ProcessSpec("apiserver", argv), log, say=print, changed=save)
    task = asyncio.create_task(supervisor.run())
    await supervisor.ready()                # its first line on stdout; ProcessFailed if it exits before that
    supervisor.begin()                      # what the process waits for is ready
    await supervisor.stop(grace=30)

A process that exits is restarted, with back-off. It runs in a process group of its own, so that Ctrl-C
reaches only its supervisor. It holds one end of a socket pair, its *lifeline*: a byte says "begin", and
end-of-file that the supervisor is gone, so that the process stops by itself. It also carries liveness probes
(``child_liveness``): a process that hangs writes the stacks of its threads to its log, and is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pilothouse.app.child_liveness import Heartbeat, Liveness
from pilothouse.base.backoff import Backoff

RESTART_BACKOFF = Backoff(first=0.5, factor=2.0, longest=30.0)
STEADY = 60.0
"""Seconds after which the back-off of a restarted process is reset."""
PAGES = "health and metrics are at "
"""How a controller-manager announces the address of its pages."""
WHY_NOT_READY = " is not ready: "
"""How a node announces why it is not ready yet, after its name."""
HUNG_SECONDS = 5.0
"""How long a hung process has to exit before it is killed."""
LARGEST_LOG = 10 * 1024 * 1024
_TAIL = 2000

Argv = Callable[[], tuple[str, ...]]
"""Returns the command at each start. ``{lifeline}`` in it stands for the descriptor of the lifeline."""


class ProcessFailed(Exception):
    """A process exited before it was ever ready; the message is its own."""


@dataclass(frozen=True)
class ProcessSpec:
    name: str
    argv: Argv
    waits: bool = False
    """Whether it waits for ``begin``."""
    loads: bool = True
    """Whether it is started before ``begin``, so that it has loaded its modules by then."""
    inherits: tuple[int, ...] = ()
    """Descriptors that it inherits."""
    liveness: Liveness = field(default_factory=Liveness)
    hung_signal: int = signal.SIGTERM
    """The signal for a hung process: if it wakes up, it must not do what only an orderly stop should do."""


@dataclass
class ProcessHealth:
    name: str
    pid: int = 0
    since: float = 0.0
    starts: int = 0
    state: str = "starting"
    lines: list[str] = field(default_factory=list)
    """The last lines of the running process on stdout."""
    last_end: str = ""
    """How the process before this one ended; empty if there was none."""


class ProcessSupervisor:
    def __init__(
        self, spec: ProcessSpec, log: Path, say: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self.spec = spec
        self.health = ProcessHealth(spec.name)
        self._log = log
        self._say = say
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._line: socket.socket | None = None
        self._begun = asyncio.Event()
        if not spec.waits:
            self._begun.set()
        self._ready = asyncio.Event()
        self._silence = ""
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until ``stop``. Raises ``ProcessFailed`` if the process was never ready."""
        failures = 0
        if not self.spec.loads:
            await self._either(self._begun, self._stopping)
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                ending = f"ended ({_ending(await self._live())})"
                last_line = self._last_line()
            except OSError as problem:
                # No process or file can be created at the moment; the other processes keep running.
                ending = last_line = f"can't be started ({problem.strerror})"
            if self._stopping.is_set():
                break
            self.health.last_end = f"hung: {self._silence}" if self._silence else ending
            if not self._ready.is_set():
                self._note("failed")
                raise ProcessFailed(f"{self.spec.name}: {last_line or f'it {ending}'}")
            failures = 1 if time.monotonic() - began > STEADY else failures + 1
            pause = RESTART_BACKOFF.after(failures)
            self._note("waiting")
            self._say(f"{self.spec.name} {ending}; restarting it in {pause:g} s; its log is {self._log}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
        self._note("stopped")

    def begin(self) -> None:
        """Tell the process, and each later one, that what it waits for is ready."""
        self._begun.set()
        if self._line is not None:
            with contextlib.suppress(ConnectionError):
                self._line.send(b"!")

    async def ready(self) -> str:
        """Wait for its first line on stdout."""
        await self._ready.wait()
        return self.health.lines[0]

    @property
    def ended_well(self) -> bool:
        """Whether its last process exited with status 0."""
        return self._process is not None and self._process.returncode == 0

    def hurry(self) -> None:
        """Ask it to stop at once, by another signal: two of a kind are delivered as one."""
        self._signal(signal.SIGINT)

    async def stop(self, grace: float, number: int = signal.SIGTERM) -> None:
        """Ask it to stop; after ``grace`` seconds it is killed."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._note("stopping")
        self._signal(number)
        try:
            await asyncio.wait_for(process.wait(), grace)
        except TimeoutError:
            self._say(f"{self.spec.name} did not stop within {grace:g} s; killing it")
            self._signal(signal.SIGKILL)
            await process.wait()

    async def _either(self, *events: asyncio.Event) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in events]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _live(self) -> int:
        """Run one process; returns its exit status."""
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        theirs, ours = socket.socketpair()
        ours.setblocking(False)
        self.health.lines.clear()
        self._silence = ""
        with ours:
            with theirs, self._log.open("ab") as log:
                self._process = process = await asyncio.create_subprocess_exec(
                    *(each.replace("{lifeline}", str(theirs.fileno())) for each in self.spec.argv()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    pass_fds=(theirs.fileno(), *self.spec.inherits),
                    process_group=0,
                )
            self._line = ours
            if self._begun.is_set():
                ours.send(b"!")
            self.health.pid, self.health.since = process.pid, time.time()
            self.health.starts += 1
            self._note("starting")
            if self._stopping.is_set():
                self._signal(signal.SIGTERM)
            watching = asyncio.create_task(self._end_if_hung(process, ours))
            try:
                await self._listen(process)
                return await process.wait()
            finally:
                self._line = None
                watching.cancel()

    async def _end_if_hung(self, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        await self._begun.wait()
        heartbeat = Heartbeat(line, self.spec.liveness, lambda: self.health.state == "starting")
        silence = await heartbeat.hung()
        if self._stopping.is_set():
            # It has its grace period to stop; after that ``stop`` kills it.
            return
        self._silence = f"no answer for {silence:g} s"
        self._note("hung")
        self._say(
            f"{self.spec.name} has not answered for {silence:g} s, though its process {process.pid} exists: "
            f"killing it; the stacks of its threads are in {self._log}"
        )
        for number, patience in (signal.SIGUSR2, 1.0), (self.spec.hung_signal, HUNG_SECONDS):
            self._signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
        self._signal(signal.SIGKILL)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Log its stdout until end-of-file."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._log_line(line)
            self.health.lines.append(line.decode(errors="replace").rstrip("\n"))
            del self.health.lines[:-50]
            self._note("running" if self.health.state == "starting" else self.health.state)
            self._ready.set()

    def _log_line(self, line: bytes) -> None:
        try:
            with self._log.open("ab") as log:
                log.write(line)
        except OSError as problem:
            self._say(
                f"{self._log}: {problem.strerror}; {self.spec.name} wrote: "
                f"{line.decode(errors='replace').rstrip()}"
            )

    def _note(self, state: str) -> None:
        self.health.state = state
        self._changed()

    def _last_line(self) -> str:
        """The last line of its log, without the prefix ``Error:``."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("Error: ") if lines else ""


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"status {code}"


def truncate_log(log: Path, largest: int = LARGEST_LOG) -> None:
    """Rotate a large log by copy and truncation: its writer has it open for appending."""
    if log.exists() and log.stat().st_size > largest:
        shutil.copyfile(log, log.with_suffix(".log.1"))
        os.truncate(log, 0)
