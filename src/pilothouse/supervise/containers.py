"""Starts, adopts and stops containers. A container survives the process that started it, and so does its exit
status.

    container = await start(folder, launch)            # its program runs; LaunchError says why not
    ...                                                # kill -9 us here: the container does not notice
    match await adopt(folder):
        case Container() as container: exit = await container.stop(signal.SIGTERM, grace=30)
        case ContainerExit() as exit: ...              # it ended meanwhile
        case None: ...                                 # nothing was ever started there

Each container is the child of a *shim* (`supervise/shim`), a daemon that holds the log, the exit code and the
lock on the directory. A directory's program runs at most once: a second `start` returns the same container.
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
"""Seconds for mounts and for loading the program."""
KILL_SECONDS = 10.0
"""Seconds for the kernel to end killed processes, and for the shim to write the exit status."""

_FRUGAL = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "262144"}
"""Makes a shim return memory to the kernel. Its program has an environment of its own."""


class StillRunning(Exception):
    """The container survived SIGKILL: a process of it hangs in the kernel."""


_FIRST_LOOK, _LAST_LOOK = 0.02, 1.0
"""Seconds between checks whether a program has a handler for a signal."""


class Container:
    """A program that was started in `folder`, running or ended."""

    def __init__(self, folder: Path, state: ContainerRecordState) -> None:
        self.folder = folder
        self.state = state

    @property
    def pid(self) -> int:
        """The host's pid of its first process; inside its PID namespace that is 1."""
        return self.state.pid

    @property
    def started(self) -> float:
        """Seconds since 1970."""
        return self.state.started

    async def exited(self) -> ContainerExit:
        """Wait for its exit status; all output is then in the log. Any number of callers may wait."""
        with (
            contextlib.suppress(ProcessGone),
            contextlib.closing(ProcessHandle.open(self.state.program)) as program,
        ):
            await program.wait()
        # Its shim now writes the rest of the output and the exit status.
        pause = 0.001
        while (ended := container_records.read_exit(self.folder)) is None:
            with container_records.shim_absent(self.folder) as absent:
                if absent:
                    return _ended(self.folder, self.state)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)
        return ended

    def kill(self, number: int) -> None:
        """Send a signal to its first process; no error if that has ended."""
        _signal(self.state.program, number)

    async def stop(self, number: int, grace: float) -> ContainerExit:
        """Send a stop signal; after `grace` seconds kill all. A concurrent `stop` can only shorten it."""
        ended = asyncio.ensure_future(self.exited())
        asking = asyncio.ensure_future(self._ask(number)) if grace > 0 else None
        try:
            if asking is not None:
                await asyncio.wait((ended,), timeout=grace)
                asking.cancel()
            if not ended.done():
                self.kill(signal.SIGKILL)
                release_processors(container_records.read_launch(self.folder).cgroups)
                _signal(self.state.shim, signal.SIGCONT)  # Were it stopped, it could not write the exit.
                await asyncio.wait((ended,), timeout=KILL_SECONDS)
            if not ended.done() and self._program_gone():
                # Its shim is stuck. The exit status is lost, but no process may stay.
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
        """Send a signal, and again as soon as the program has a handler, if it was dropped.

        The kernel drops a signal to the first process of a PID namespace that has no handler for it, as any
        program that is still starting; also one that was blocked and is then unblocked. A program that keeps
        it blocked reads it otherwise.
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
        """Run another program inside it. Raises LaunchError."""
        launch = container_records.read_launch(self.folder)
        return await exec.enter(self.folder, self.state, launch, argv, tty=tty, stdin=stdin, env=env, cwd=cwd)

    async def attach(self) -> Attached:
        """Read its output and write its input. Raises LaunchError."""
        return await attach.attach(self.folder)

    def _program_gone(self) -> bool:
        try:
            with contextlib.closing(ProcessHandle.open(self.state.program)) as program:
                return program.ended
        except ProcessGone:
            return True


async def start(folder: Path, launch: LaunchSpec, *, seconds: float = START_SECONDS) -> Container:
    """Start a container; returns when its program is loaded. Raises LaunchError and OSError."""
    if (state := container_records.prepare(folder, launch)) is not None:
        return Container(folder, state)
    reader, shim = _spawn_shim(folder, launch)
    reply = bytearray()
    try:
        async with asyncio.timeout(seconds):
            await read_all(reader, reply)
    except TimeoutError:
        shim.kill()
        if (identity := _shim_identity(reply)) is not None:
            _signal(identity, signal.SIGKILL)
        raise LaunchError(
            "TookTooLong",
            f"it did not start in {seconds:g} s: a mount or the program's own file may be on a filesystem "
            "that hangs",
        ) from None
    finally:
        await _reap(shim, min(seconds, KILL_SECONDS))
    word, _, message = reply.decode(errors="replace").partition("\n")[2].partition("\n")
    match word:
        case "started" | "taken":
            if (state := await _state_of_running(folder, seconds)) is not None:
                return Container(folder, state)
            raise LaunchError("StartFailed", "another start in the same folder failed at the same moment")
        case "":
            raise LaunchError("ShimFailed", f"its shim ended before it was started: {_shim_error(folder)}")
        case _:
            raise LaunchError(word, message)


async def adopt(folder: Path, *, seconds: float = START_SECONDS) -> Container | ContainerExit | None:
    """The container that was started in `folder`, or its exit status; None if none was ever started."""
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
    """The state of a living shim, once it has written it; None if the shim ends without."""
    deadline = time.monotonic() + seconds
    while (state := container_records.read_state(folder)) is None:
        with container_records.shim_absent(folder) as absent:
            if absent:
                return container_records.read_state(folder)
        if time.monotonic() > deadline:
            message = f"what is being started in {folder} has not started in {seconds:g} s"
            raise LaunchError("TookTooLong", message)
        await asyncio.sleep(0.01)
    return state


def _ended(folder: Path, state: ContainerRecordState) -> ContainerExit:
    """The exit status once the shim is gone: the one that it wrote, or an unknown one."""
    if (ended := container_records.read_exit(folder)) is not None:
        return ended
    if state.boot == boot_id() and not container_records.is_copied(folder):
        _signal(state.program, signal.SIGKILL)
        kill_session(state.pid, state.ticks)
    killed = signal.SIGKILL
    ended = ContainerExit(KILLED + killed, killed, False, state.started, time.time(), lost=True)
    container_records.write(folder / container_records.EXIT, ended)
    return ended


def _signal(identity: ProcessIdentity, number: int) -> None:
    with contextlib.suppress(ProcessGone), contextlib.closing(ProcessHandle.open(identity)) as process:
        process.signal(number)


def _spawn_shim(folder: Path, launch: LaunchSpec) -> tuple[int, subprocess.Popen[bytes]]:
    """The shim's first process, which exits once the shim has daemonised, and the answer pipe."""
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
    """Reap the shim's first process; kill it if it doesn't exit. One that hangs is left."""
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


def _shim_error(folder: Path) -> str:
    return (folder / container_records.SHIM_LOG).read_text(errors="replace").strip()[-2000:]


def _shim_identity(reply: bytearray) -> ProcessIdentity | None:
    """The shim's first line: its pid and start time."""
    line, complete, _ = reply.partition(b"\n")
    if not complete:
        return None
    pid, ticks = line.split()
    return ProcessIdentity(boot_id(), int(pid), int(ticks))
