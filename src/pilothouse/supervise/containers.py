"""Containers: a program that is started once, outlives whoever started it, and whose end is never missed.

    container = await start(folder, launch)            # its program runs; LaunchError says why not
    ...                                                # kill -9 us here: the container does not notice
    match await adopt(folder):
        case Container() as container: exit = await container.stop(signal.SIGTERM, grace=30)
        case ContainerExit() as exit: ...                       # it ended meanwhile
        case None: ...                                 # nothing was ever started there

Each container is the child of a *shim* of its own (`supervise/shim`), which is nobody's child: it holds the log, the exit
code and the lock on the folder. So a folder's program runs at most once, however often and by whomever `start` is called:
who comes second gets the same container. To run a program again, take another folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from pilothouse.supervise import attach, container_records, exec
from pilothouse.supervise.attach import Attached
from pilothouse.supervise.cgroups import release_processors
from pilothouse.supervise.container_records import ContainerRecordState
from pilothouse.supervise.exec import ExecProcess
from pilothouse.supervise.launch_spec import KILLED, ContainerExit, LaunchError, LaunchSpec
from pilothouse.supervise.process_identity import (
    ProcessGone,
    ProcessHandle,
    ProcessIdentity,
    SignalState,
    boot_id,
    signal_state,
)
from pilothouse.supervise.shim.process_tree import kill_below, kill_session
from pilothouse.supervise.shim_spawn import in_memory, interpreter, lean_command, read_all

START_SECONDS = 60.0
"""How long mounts and the program's own loading may take. A network filesystem that hangs is told, not waited for."""
KILL_SECONDS = 10.0
"""How long the kernel may take to end what was killed, and the shim to write it down."""

_FRUGAL = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "262144"}
"""What a shim took for a burst of output it gives back. Its program gets an environment of its own."""


class StillRunning(Exception):
    """Killed, and yet not gone: something in it hangs in the kernel."""


_FIRST_LOOK, _LAST_LOOK = 0.02, 1.0
"""Seconds between looks at whether a program has a handler for a signal yet."""


class Container:
    """A program that was started in `folder`, running or ended."""

    def __init__(self, folder: Path, state: ContainerRecordState) -> None:
        self.folder = folder
        self.state = state

    @property
    def pid(self) -> int:
        """Its first process, as the machine counts; inside its view that is 1."""
        return self.state.pid

    @property
    def started(self) -> float:
        """Seconds since 1970."""
        return self.state.started

    async def exited(self) -> ContainerExit:
        """How it ended, once it has; all output is then in the log. Many may wait."""
        with (
            contextlib.suppress(ProcessGone),
            contextlib.closing(ProcessHandle.open(self.state.program)) as program,
        ):
            await program.wait()
        # Now its shim passes on what is left of the output, and writes it down. It may stay a little for those attached.
        pause = 0.001
        while (ended := container_records.read_exit(self.folder)) is None:
            with container_records.shim_absent(self.folder) as absent:
                if absent:
                    return _ended(self.folder, self.state)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)
        return ended

    def kill(self, number: int) -> None:
        """Signal its first process; one that has ended is left in peace."""
        _signal(self.state.program, number)

    async def stop(self, number: int, grace: float) -> ContainerExit:
        """Ask it to end; after `grace` seconds kill everything in it. Another `stop` meanwhile can only hasten it."""
        ended = asyncio.ensure_future(self.exited())
        asking = asyncio.ensure_future(self._ask(number)) if grace > 0 else None
        try:
            if asking is not None:
                await asyncio.wait((ended,), timeout=grace)
                asking.cancel()
            if not ended.done():
                self.kill(signal.SIGKILL)
                release_processors(container_records.read_launch(self.folder).cgroups)
                _signal(
                    self.state.shim, signal.SIGCONT
                )  # Should someone have stopped it: it has something to write down.
                await asyncio.wait((ended,), timeout=KILL_SECONDS)
            if not ended.done() and self._program_gone():
                # Its shim is stuck. What it would have told is lost, but nothing of it may stay.
                kill_below(self.state.shim_pid)
                _signal(self.state.shim, signal.SIGKILL)
                await asyncio.wait((ended,), timeout=KILL_SECONDS)
            if not ended.done():
                raise StillRunning(
                    f"process {self.pid} was killed {KILL_SECONDS:g} s ago and has not ended: "
                    f"it waits in the kernel, mostly for a disk or a network filesystem ({self.folder})"
                )
            return ended.result()
        finally:
            ended.cancel()
            if asking is not None:
                asking.cancel()

    async def _ask(self, number: int) -> None:
        """Send a signal, and again as soon as the program has a handler, if it was lost until then.

        The kernel drops a signal to the first process of a PID namespace for which that has no handler, as any program that is still
        starting; also one that was blocked for a moment and comes out then. A program that keeps it blocked reads it in another way.
        """
        pause, waits = _FIRST_LOOK, False
        asked = False
        while (state := signal_state(self.pid, number)) is not SignalState.HANDLED:
            if state is SignalState.ENDED:
                return
            if state is SignalState.BLOCKED or not asked:
                if not waits:
                    self.kill(number)
                asked = True
            waits = state is SignalState.BLOCKED
            await asyncio.sleep(pause)
            pause = min(_LAST_LOOK, pause * 1.5)
        if not waits:
            self.kill(number)

    async def enter(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        stdin: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecProcess:
        """Run one more program inside it. Raises LaunchError."""
        launch = container_records.read_launch(self.folder)
        return await exec.enter(self.folder, self.state, launch, argv, tty=tty, stdin=stdin, env=env, cwd=cwd)

    async def attach(self) -> Attached:
        """Follow its output and type its input. Raises LaunchError."""
        return await attach.attach(self.folder)

    def _program_gone(self) -> bool:
        try:
            with contextlib.closing(ProcessHandle.open(self.state.program)) as program:
                return program.ended
        except ProcessGone:
            return True


async def start(folder: Path, launch: LaunchSpec, *, seconds: float = START_SECONDS) -> Container:
    """Run it, and return when its program has been loaded. Raises LaunchError, and OSError if the folder can't be written."""
    if (state := container_records.prepare(folder, launch)) is not None:
        return Container(folder, state)
    reader, shim = _spawn_shim(folder, launch)
    heard = bytearray()
    try:
        async with asyncio.timeout(seconds):
            await read_all(reader, heard)
    except TimeoutError:
        shim.kill()
        if (identity := _introduced(heard)) is not None:
            _signal(identity, signal.SIGKILL)
        raise LaunchError(
            "TookTooLong",
            f"it did not start in {seconds:g} s: a mount or the program's own file may be on a filesystem that hangs",
        ) from None
    finally:
        await _reap(shim, min(seconds, KILL_SECONDS))
    word, _, message = heard.decode(errors="replace").partition("\n")[2].partition("\n")
    match word:
        case "started" | "taken":
            if (state := await _state_of_running(folder, seconds)) is not None:
                return Container(folder, state)
            raise LaunchError("StartFailed", "another start in the same folder failed at the same moment")
        case "":
            raise LaunchError("ShimFailed", f"its shim ended before it was started: {_complaint(folder)}")
        case _:
            raise LaunchError(word, message)


async def adopt(folder: Path, *, seconds: float = START_SECONDS) -> Container | ContainerExit | None:
    """What became of the container that was started in `folder`; None if none ever was."""
    try:
        if (ended := container_records.read_exit(folder)) is not None:
            return ended
        with container_records.shim_absent(folder) as absent:
            if absent:
                state = container_records.read_state(folder)
                return None if state is None else _ended(folder, state)
    except FileNotFoundError:
        return None
    state = await _state_of_running(folder, seconds)
    return None if state is None else Container(folder, state)


async def _state_of_running(folder: Path, seconds: float) -> ContainerRecordState | None:
    """The state that a living shim has written, or is about to; None if it goes without."""
    deadline = time.monotonic() + seconds
    while (state := container_records.read_state(folder)) is None:
        with container_records.shim_absent(folder) as absent:
            if absent:
                return container_records.read_state(folder)
        if time.monotonic() > deadline:
            raise LaunchError(
                "TookTooLong", f"what is being started in {folder} has not started in {seconds:g} s"
            )
        await asyncio.sleep(0.01)
    return state


def _ended(folder: Path, state: ContainerRecordState) -> ContainerExit:
    """Its shim is gone: what it wrote, or else that nothing is known, written down in its stead."""
    if (ended := container_records.read_exit(folder)) is not None:
        return ended
    if state.boot == boot_id() and not container_records.is_copied(folder):
        _signal(state.program, signal.SIGKILL)
        kill_session(state.pid, state.ticks)
    ended = ContainerExit(
        KILLED + signal.SIGKILL, signal.SIGKILL, False, state.started, time.time(), lost=True
    )
    container_records.write(folder / container_records.EXIT, ended)
    return ended


def _signal(identity: ProcessIdentity, number: int) -> None:
    with contextlib.suppress(ProcessGone), contextlib.closing(ProcessHandle.open(identity)) as process:
        process.signal(number)


def _spawn_shim(folder: Path, launch: LaunchSpec) -> tuple[int, subprocess.Popen[bytes]]:
    """The shim's first process, which ends as soon as the shim proper is on its own; and where that one answers."""
    reader, writer = os.pipe()
    order = in_memory(msgspec.to_builtins(launch, builtin_types=(bytes,)))
    try:
        with (folder / container_records.SHIM_LOG).open("ab") as log, interpreter() as executable:
            shim = subprocess.Popen(
                lean_command("shim_main", str(folder)),
                executable=executable,
                stdin=order,
                stdout=writer,
                stderr=log,
                start_new_session=True,
                env=_FRUGAL,
            )
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
        os.close(order)
    return reader, shim


async def _reap(shim: subprocess.Popen[bytes], seconds: float) -> None:
    """Its first process ends at once. One that does not is killed; one that even so hangs in the kernel is not waited for."""
    if shim.poll() is not None:
        return
    with contextlib.closing(ProcessHandle.child(shim.pid)) as first:
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await first.wait()
                break
            shim.kill()
    shim.poll()


def _complaint(folder: Path) -> str:
    return (folder / container_records.SHIM_LOG).read_text(errors="replace").strip()[-2000:]


def _introduced(heard: bytearray) -> ProcessIdentity | None:
    """The shim's first line: its pid and when it began."""
    line, complete, _ = heard.partition(b"\n")
    if not complete:
        return None
    pid, ticks = line.split()
    return ProcessIdentity(boot_id(), int(pid), int(ticks))
