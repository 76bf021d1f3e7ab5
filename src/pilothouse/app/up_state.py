"""What ``up`` writes to the data folder for ``down``, ``status`` and the next ``up``: a lock and a report.

    async with held(folder, ...) as lock: ...       # AlreadyRunning if another `up` holds it
    write(folder, UpReport(...))
    running(folder)                                 # the report of one that runs, else None
    holder(folder)                                  # the process that holds the lock

``up`` and each of its child processes hold the lock: the folder is not free before the last of them has
ended, even if ``up`` itself was killed. The lock file names the process of ``up``, before it starts anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from pilothouse.app.options import StartError
from pilothouse.pki.private_files import write_private
from pilothouse.supervise.process_identity import ProcessGone, ProcessHandle, ProcessIdentity, identify

_LOCK, _REPORT = "up.lock", "up.json"
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class ProcessReport:
    name: str
    state: str
    pid: int
    since: float
    starts: int
    last_end: str = ""
    """How the process before this one ended; empty if there was none."""


@dataclass(frozen=True)
class UpReport:
    pid: int
    since: float
    url: str
    node: str
    keep: bool
    ready: float
    """Seconds from its start until all processes had started; 0 before that."""
    roles: tuple[ProcessReport, ...]
    manager: str = ""
    """The address of the controller-manager's metrics, as HOST:PORT; empty until it is known."""
    node_problem: str = ""
    """Why the node is not ready; empty if it is, or has not started yet."""


class FolderHolder(msgspec.Struct, frozen=True):
    """The holder of a folder: an ``up``, or the children of one that was killed."""

    process: ProcessIdentity | None = None
    """The ``up``, which may have ended; None until it has written its name."""
    keep: bool = False
    """Whether it leaves pods running."""

    @property
    def lives(self) -> bool:
        if self.process is None:
            return False
        try:
            with contextlib.closing(ProcessHandle.open(self.process)) as handle:
                return not handle.ended
        except ProcessGone:
            return False


class AlreadyRunning(StartError):
    """Another process holds the folder."""


class ToldToStop(Exception):
    """Told to stop before the folder was free."""


@asynccontextmanager
async def held(folder: Path, *, keep: bool, patience: float, stop: asyncio.Event) -> AsyncIterator[int]:
    """Hold the lock; yields its descriptor. Children of an earlier ``up`` get ``patience`` seconds to end.

    Raises ``AlreadyRunning``; ``ToldToStop`` if ``stop`` is set before the lock is free.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _locked(descriptor, fcntl.LOCK_EX):
            other = _holder(descriptor)
            if other.process is not None and other.lives:
                raise AlreadyRunning(
                    f"pilothouse is already running on {folder}, as process {other.process.pid}: "
                    f"`pilothouse status --data {folder}` shows it, `pilothouse down --data {folder}` stops "
                    "it"
                )
            if time.monotonic() > deadline:
                raise AlreadyRunning(
                    f"a process of an earlier `pilothouse up` on {folder} did not end within {patience:g} s; "
                    f"`fuser {folder / _LOCK}` names it"
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await stop.wait()
            if stop.is_set():
                raise ToldToStop
        remove(folder)
        _write_holder(descriptor, FolderHolder(identify(os.getpid()), keep))
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def free(folder: Path) -> Iterator[bool]:
    """Whether the folder is free; if so, it is locked within the context."""
    with _lock_file(folder) as descriptor:
        yield descriptor is None or _locked(descriptor, fcntl.LOCK_EX)


def holder(folder: Path) -> FolderHolder | None:
    """The process that holds the folder; None if it is free."""
    with _lock_file(folder) as descriptor:
        if descriptor is None or _locked(descriptor, fcntl.LOCK_SH):
            return None
        return _holder(descriptor)


def write(folder: Path, report: UpReport) -> None:
    write_private(folder / _REPORT, json.dumps(asdict(report), indent=2).encode() + b"\n")


def remove(folder: Path) -> None:
    (folder / _REPORT).unlink(missing_ok=True)


def running(folder: Path) -> UpReport | None:
    """The report of the ``up`` that holds the folder; None if there is none."""
    return None if holder(folder) is None else _read(folder)


@contextmanager
def _lock_file(folder: Path) -> Iterator[int | None]:
    """None where there never was an ``up``."""
    try:
        descriptor = _opened(folder / _LOCK)
    except FileNotFoundError:
        yield None
        return
    except PermissionError:
        raise StartError(f"{folder} belongs to another user; run the command as that user") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(lock: Path) -> int:
    """For writing where possible: network filesystems require that for locks."""
    try:
        return os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError as problem:
        if problem.errno != errno.EROFS:
            raise
        return os.open(lock, os.O_RDONLY | os.O_CLOEXEC)


def _locked(descriptor: int, how: int) -> bool:
    """Try to lock. Readers take a shared lock, so they never mistake each other for a holder."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(descriptor: int, who: FolderHolder) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(who), 0)
    except OSError as problem:
        raise StartError(f"the data folder can't be written: {problem.strerror}") from None


def _holder(descriptor: int) -> FolderHolder:
    try:
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=FolderHolder)
    except msgspec.MsgspecError:
        # Being written at this moment.
        return FolderHolder()


def _read(folder: Path) -> UpReport | None:
    try:
        tree = json.loads((folder / _REPORT).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return UpReport(**{**tree, "roles": tuple(ProcessReport(**each) for each in tree["roles"])})
