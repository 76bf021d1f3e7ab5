"""The roles of a control plane on one machine, each a process of its own that is looked after.

    keeper = ProcessSupervisor(ProcessSpec("apiserver", argv), log=folder / "apiserver.log", say=print, changed=save)
    task = asyncio.create_task(keeper.run())
    await keeper.ready()                    # its first line on stdout; ProcessFailed if it ends before it ever said one
    keeper.begin()                          # what it waits for is there
    await keeper.stop(grace=30)

A role that ends unasked is started again, after a pause that grows, and that is told. Its stderr and what it says goes to a log.
It runs in a process group of its own, so that Ctrl-C at the terminal reaches only whoever looks after it. It holds the other
end of a socket pair, its *lifeline*: a byte in it says "begin", and its end that nobody looks after the role any more, so that it
stops by itself. That is how nothing is left running when we are killed.

By the same socket pair a role is asked whether it still runs (``liveness``): one that hangs writes the stacks of its threads to its
log if it can, is killed, and is started again as if it had ended by itself.
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

PAUSES = Backoff(first=0.5, factor=2.0, longest=30.0)
STEADY = 60.0
"""Seconds after which a role that ends has not failed "again"."""
PAGES = "health and metrics are at "
"""With this a controller-manager says where it can be looked at."""
HUNG_SECONDS = 5.0
"""How long a role that hangs has to end by itself before it is killed."""
LARGEST_LOG = 10 * 1024 * 1024
_TAIL = 2000

Argv = Callable[[], tuple[str, ...]]
"""The command, asked for at each start. ``{lifeline}`` in it stands for the number of the lifeline's end."""


class ProcessFailed(Exception):
    """A role ended before it was ever ready; the message is what it said itself."""


@dataclass(frozen=True)
class ProcessSpec:
    """What is to be run."""

    name: str
    argv: Argv
    waits: bool = False
    """Whether it has to be told to begin; else it does so at once."""
    loads: bool = True
    """Whether it is started before it is told, so that it has loaded its program by then."""
    inherits: tuple[int, ...] = ()
    """Descriptors that it holds as long as it lives."""
    liveness: Liveness = field(default_factory=Liveness)
    asked_to_end: int = signal.SIGTERM
    """The signal for one that hangs: it must not do, when it wakes, what only an orderly stop should do."""


@dataclass
class ProcessHealth:
    """How a role is doing, for whoever shows it."""

    name: str
    pid: int = 0
    since: float = 0.0
    starts: int = 0
    state: str = "starting"
    lines: list[str] = field(default_factory=list)
    """What the process that runs has said on stdout."""
    last_end: str = ""
    """How the process before this one ended; empty if there was none."""


class ProcessSupervisor:
    """Runs one role, again and again."""

    def __init__(
        self, role: ProcessSpec, log: Path, say: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self.role = role
        self.health = ProcessHealth(role.name)
        self._log = log
        self._say = say
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._line: socket.socket | None = None
        self._told = asyncio.Event()
        if not role.waits:
            self._told.set()
        self._ready = asyncio.Event()
        self._silence = ""
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until ``stop``. Raises ``ProcessFailed`` if the role was never ready."""
        failures = 0
        if not self.role.loads:
            await self._either(self._told, self._stopping)
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                ending = f"ended ({_ending(await self._live())})"
                last_words = self._last_words()
            except OSError as problem:
                # No process or no file to be had at the moment; the others need not end for that.
                ending = last_words = f"can't be started ({problem.strerror})"
            if self._stopping.is_set():
                break
            self.health.last_end = f"hung: {self._silence}" if self._silence else ending
            if not self._ready.is_set():
                self._note("failed")
                raise ProcessFailed(f"{self.role.name}: {last_words or f'it {ending}'}")
            failures = 1 if time.monotonic() - began > STEADY else failures + 1
            pause = PAUSES.after(failures)
            self._note("waiting")
            self._say(
                f"{self.role.name} {ending} and is started again in {pause:g} s; "
                f"what it said last is in {self._log}"
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
        self._note("stopped")

    def begin(self) -> None:
        """What the role needs is there, now and from now on."""
        self._told.set()
        if self._line is not None:
            with contextlib.suppress(ConnectionError):
                self._line.send(b"!")

    async def ready(self) -> str:
        """The first line that it said."""
        await self._ready.wait()
        return self.health.lines[0]

    @property
    def ended_well(self) -> bool:
        """Whether its last process ended by itself, with everything done that it does at its end."""
        return self._process is not None and self._process.returncode == 0

    def hurry(self) -> None:
        """Ask again, for those that take their time; by another signal, since two of a kind are one to whoever has not heard the first yet."""
        self._signal(signal.SIGINT)

    async def stop(self, grace: float, number: int = signal.SIGTERM) -> None:
        """Ask it to end; after ``grace`` seconds it is killed."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._note("stopping")
        self._signal(number)
        try:
            await asyncio.wait_for(process.wait(), grace)
        except TimeoutError:
            self._say(f"{self.role.name} has not ended in {grace:g} s and is killed")
            self._signal(signal.SIGKILL)
            await process.wait()

    async def _either(self, *events: asyncio.Event) -> None:
        """Wait for one of them."""
        waiting = [asyncio.ensure_future(event.wait()) for event in events]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _live(self) -> int:
        """One process, from its start to its end; its status."""
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        theirs, ours = socket.socketpair()
        ours.setblocking(False)
        self.health.lines.clear()
        self._silence = ""
        with ours:
            with theirs, self._log.open("ab") as log:
                self._process = process = await asyncio.create_subprocess_exec(
                    *(each.replace("{lifeline}", str(theirs.fileno())) for each in self.role.argv()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    pass_fds=(theirs.fileno(), *self.role.inherits),
                    process_group=0,
                )
            self._line = ours
            if self._told.is_set():
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
        await self._told.wait()
        heartbeat = Heartbeat(line, self.role.liveness, lambda: self.health.state == "starting")
        silence = await heartbeat.hung()
        if self._stopping.is_set():
            # It takes its time, which it has; the stop kills it in the end.
            return
        self._silence = f"no answer for {silence:g} s"
        self._note("hung")
        self._say(
            f"{self.role.name} has not answered for {silence:g} s, though its process {process.pid} exists: "
            f"it is killed; what it was doing is in {self._log}"
        )
        for number, patience in (signal.SIGUSR2, 1.0), (self.role.asked_to_end, HUNG_SECONDS):
            self._signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
        self._signal(signal.SIGKILL)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Keep what it says, until it says no more."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._keep_line(line)
            self.health.lines.append(line.decode(errors="replace").rstrip("\n"))
            del self.health.lines[:-50]
            self._note("running" if self.health.state == "starting" else self.health.state)
            self._ready.set()

    def _keep_line(self, line: bytes) -> None:
        try:
            with self._log.open("ab") as log:
                log.write(line)
        except OSError as problem:
            self._say(
                f"{self._log}: {problem.strerror}; {self.role.name} said: {line.decode(errors='replace').rstrip()}"
            )

    def _note(self, state: str) -> None:
        self.health.state = state
        self._changed()

    def _last_words(self) -> str:
        """The end of what it said, without what goes before the error itself."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("Error: ") if lines else ""


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"status {code}"


def truncate_log(log: Path, largest: int = LARGEST_LOG) -> None:
    """Put aside what a large log holds. Whoever writes to it has it open for appending, and goes on with the empty file."""
    if log.exists() and log.stat().st_size > largest:
        shutil.copyfile(log, log.with_suffix(".log.1"))
        os.truncate(log, 0)
