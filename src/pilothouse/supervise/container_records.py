"""The files in a container's directory.

    launch.json    the launch spec; for people
    lock           held by the shim for as long as it lives
    state.json     written before the program's first instruction: pids and start times
    exit.json      the exit status
    attach.sock    see `attach`
    enter.sock     see `exec`
    shim.log       errors of the shim itself

A directory holds one run, ensured by the lock while the shim lives, by state.json and exit.json afterwards. A
copy of a directory holds none: its records are about the original's processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pilothouse.supervise.launch_spec import ContainerExit, LaunchSpec
from pilothouse.supervise.process_identity import ProcessIdentity

LAUNCH = "launch.json"
LOCK = "lock"
STATE = "state.json"
EXIT = "exit.json"
SHIM_LOG = "shim.log"
ATTACH = "attach.sock"
ENTER = "enter.sock"


class ContainerRecordState(msgspec.Struct, frozen=True):
    """A container that was started."""

    boot: str
    pid: int
    ticks: int
    shim_pid: int
    shim_ticks: int
    started: float
    folder: str = ""
    """Device and inode of the directory in which it was started; empty if by an earlier version."""

    @property
    def program(self) -> ProcessIdentity:
        return ProcessIdentity(self.boot, self.pid, self.ticks)

    @property
    def shim(self) -> ProcessIdentity:
        return ProcessIdentity(self.boot, self.shim_pid, self.shim_ticks)


def prepare(folder: Path, launch: LaunchSpec) -> ContainerRecordState | None:
    """Create the directory and write the launch spec; returns the state of an earlier start, if any."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (state := read_state(folder)) is None:
        write(folder / LAUNCH, launch)
    return state


def read_state(folder: Path) -> ContainerRecordState | None:
    """None if nothing was started there."""
    path = folder / STATE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ContainerRecordState)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        # It is not synced, so the machine went down soon after it was written: nothing of it runs.
        started = path.stat().st_mtime
        return ContainerRecordState("unknown", pid=0, ticks=0, shim_pid=0, shim_ticks=0, started=started)


def is_copied(folder: Path) -> bool:
    """Whether a directory is a copy of the one in which its container was started."""
    state = read_state(folder)
    if state is None or not state.folder:
        return False
    found = folder.stat()
    return state.folder != f"{found.st_dev}:{found.st_ino}"


def read_launch(folder: Path) -> LaunchSpec:
    """Raises FileNotFoundError."""
    return msgspec.json.decode((folder / LAUNCH).read_bytes(), type=LaunchSpec)


def read_exit(folder: Path) -> ContainerExit | None:
    """None if it hasn't ended, or no shim recorded it."""
    try:
        return msgspec.json.decode((folder / EXIT).read_bytes(), type=ContainerExit)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write(path: Path, record: msgspec.Struct, *, mode: int = 0o600) -> None:
    """Write atomically and durably."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        file.write(msgspec.json.encode(record))
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)


@contextlib.contextmanager
def shim_absent(folder: Path) -> Iterator[bool]:
    """Whether no shim lives there; within the context none can start. Keep it short."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
