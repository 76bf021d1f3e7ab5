"""A machine whose programs are played: containers that start, run, answer and end by the loop's clock, without a process.

    machine = FakeMachine(clock)
    machine.cast["db"] = FakeProgram(runs=5.0, code=1)            # every instance ends after 5 s with code 1
    machine.cast["db"] = [FakeProgram(code=1, runs=0), FakeProgram()]    # the first so, those after it like the last
    machine.answer("db", ("check",), lambda: 0)            # what a program says that is run inside it
    machine.running, machine.launches                      # what runs, and all that was ever started

It has what the node asks of ``supervise.containers``, and outlives agents as shims do: what was started is adopted by the next one.
``tests/node/test_simulated_machines_are_like_real_ones.py`` holds both to the same cases.
"""

from __future__ import annotations

import asyncio
import signal as signals
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pilothouse.base.clock import Clock
from pilothouse.supervise.attach import Attached
from pilothouse.supervise.containers import KILL_SECONDS, StillRunning
from pilothouse.supervise.launch_spec import KILLED, ContainerExit, LaunchError, LaunchSpec


@dataclass(frozen=True)
class FakeProgram:
    """How a program behaves."""

    runs: float | None = None
    """Seconds after which it ends by itself; None for never."""
    code: int = 0
    """With which it does."""
    stops_in: float | None = 0.0
    """Seconds that it takes to end when asked; None if it takes no notice."""
    stop_code: int = 0
    oom: bool = False
    says: str = ""
    """What it leaves as its termination message."""
    refuses: str = ""
    """Why it can't be started."""
    starts_in: float = 0.0
    hangs: bool = False
    """Whether it waits in the kernel, so that not even a kill ends it."""


class FakeExec:
    """A program inside a container."""

    def __init__(self, code: int, output: str, seconds: float) -> None:
        self._code = code
        self._seconds = seconds
        self.stdin = None
        self.killed = False
        self.stdout = asyncio.StreamReader()
        self.stderr = asyncio.StreamReader()
        self.stdout.feed_data(output.encode())
        self.stdout.feed_eof()
        self.stderr.feed_eof()

    def resize(self, rows: int, columns: int) -> None:
        """It has no terminal."""

    async def exited(self) -> int:
        await asyncio.sleep(self._seconds)
        return self._code

    async def close(self) -> None:
        self.killed = True


@dataclass(frozen=True)
class Answer:
    """What a program says that is run inside a container."""

    code: int = 0
    output: str = ""
    seconds: float = 0.0
    refuses: str = ""
    """Why it can't be run."""


class FakeContainer:
    """One run of one program."""

    def __init__(
        self, machine: FakeMachine, folder: Path, launch: LaunchSpec, play: FakeProgram, pid: int
    ) -> None:
        self.folder = folder
        self.launch = launch
        self.play = play
        self.pid = pid
        self.started = machine.clock.now()
        self.signals: list[tuple[float, int]] = []
        """When it was sent what."""
        self.entered: list[tuple[float, tuple[str, ...]]] = []
        self._machine = machine
        loop = asyncio.get_running_loop()
        self._over: asyncio.Future[ContainerExit] = loop.create_future()
        if play.runs is not None:
            loop.call_later(play.runs, self.end, play.code, None)

    @property
    def name(self) -> str:
        return self.folder.parent.name

    @property
    def ended(self) -> ContainerExit | None:
        return self._over.result() if self._over.done() else None

    def end(self, code: int, signal: int | None) -> None:
        """It ends, now."""
        if not self._over.done():
            if self.play.says:
                (self.folder / "termination-log").write_text(self.play.says)
            finished = self._machine.clock.now()
            self._over.set_result(ContainerExit(code, signal, self.play.oom, self.started, finished))

    async def exited(self) -> ContainerExit:
        return await asyncio.shield(self._over)

    def kill(self, signal: int) -> None:
        if self._over.done():
            return
        self.signals.append((self._machine.clock.now(), int(signal)))
        loop = asyncio.get_running_loop()
        if signal == signals.SIGKILL and not self.play.hangs:
            self.end(KILLED + signals.SIGKILL, signals.SIGKILL)
        elif self.play.stops_in is not None and not self.play.hangs:
            loop.call_later(self.play.stops_in, self.end, self.play.stop_code, None)

    async def stop(self, signal: int, grace: float) -> ContainerExit:
        if grace > 0:
            self.kill(signal)
            await asyncio.wait((self._over,), timeout=grace)
        if not self._over.done():
            self.kill(signals.SIGKILL)
            await asyncio.wait((self._over,), timeout=KILL_SECONDS)
        if not self._over.done():
            raise StillRunning(f"process {self.pid} was killed and has not ended")
        return await self.exited()

    async def enter(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        stdin: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> FakeExec:
        self.entered.append((self._machine.clock.now(), tuple(argv)))
        answer = self._machine.answers.get((self.name, tuple(argv)), self._machine.otherwise)()
        if isinstance(answer, int):
            answer = Answer(answer)
        if answer.refuses:
            raise LaunchError("StartFailed", answer.refuses)
        return FakeExec(answer.code, answer.output, answer.seconds)

    async def attach(self) -> Attached:
        raise LaunchError("AttachFailed", f"{self.name} is played, and has no streams")


@dataclass
class FakeMachine:
    """Containers by their folders."""

    clock: Clock
    cast: dict[str, FakeProgram | Sequence[FakeProgram]] = field(default_factory=dict)
    answers: dict[tuple[str, tuple[str, ...]], Callable[[], Answer | int]] = field(default_factory=dict)
    containers: dict[Path, FakeContainer] = field(default_factory=dict)
    launches: list[FakeContainer] = field(default_factory=list)
    draw: Callable[[str], FakeProgram] = lambda name: FakeProgram()
    """How an instance of a container behaves that is not in the cast."""
    otherwise: Callable[[], Answer | int] = Answer
    """What a program says that nobody has an answer for."""

    def answer(self, container: str, argv: tuple[str, ...], what: Callable[[], Answer | int]) -> None:
        self.answers[container, argv] = what

    @property
    def running(self) -> list[FakeContainer]:
        return [each for each in self.launches if each.ended is None]

    def named(self, name: str) -> list[FakeContainer]:
        """Every instance of a container, in order."""
        return [each for each in self.launches if each.name == name]

    async def start(self, folder: Path, launch: LaunchSpec) -> FakeContainer:
        if (known := self.containers.get(folder)) is not None:
            return known
        play = self._play(folder.parent.name)
        await asyncio.sleep(play.starts_in)
        if play.refuses:
            raise LaunchError("StartFailed", play.refuses)
        container = FakeContainer(self, folder, launch, play, 1000 + len(self.launches))
        self.containers[folder] = container
        self.launches.append(container)
        return container

    async def adopt(self, folder: Path) -> FakeContainer | ContainerExit | None:
        known = self.containers.get(folder)
        return known if known is None or known.ended is None else known.ended

    def _play(self, name: str) -> FakeProgram:
        given = self.cast.get(name) or self.draw(name)
        if isinstance(given, FakeProgram):
            return given
        return given[min(len(self.named(name)), len(given) - 1)]
