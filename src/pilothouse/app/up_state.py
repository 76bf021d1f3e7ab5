"""What ``up`` leaves in the data folder for ``down``, ``status`` and the next ``up``: that it runs, and how it is doing.

    async with held(folder, ...) as lock: ...       # AlreadyRunning if another `up` has it
    write(folder, UpReport(...))
    running(folder)                                 # the report of one that runs, else None
    holder(folder)                                  # who has the lock, from its first moment on

The lock is held by ``up`` and by each of its roles. So the folder is not free before the last of them has ended, even when
``up`` itself was killed; whoever finds a report without a lock knows that it is of one that is no more. In the lock's file
``up`` says which process it is: it is there before the first report, and before anything is started.
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
    """One of the processes."""

    name: str
    state: str
    pid: int
    since: float
    starts: int
    last_end: str = ""
    """How the process before this one ended; empty if there was none."""


@dataclass(frozen=True)
class UpReport:
    """An ``up`` at one moment."""

    pid: int
    since: float
    url: str
    node: str
    keep: bool
    ready: float
    """Seconds from its beginning until the node was ready; 0 before that."""
    roles: tuple[ProcessReport, ...]
    manager: str = ""
    """Where the controller-manager shows its figures, as HOST:PORT; empty before it has said so."""


class FolderHolder(msgspec.Struct, frozen=True):
    """Who has a folder: an ``up``, or what one that was killed left behind."""

    process: ProcessIdentity | None = None
    """The ``up``, which may have ended; None in the first moments, in which it has not said so yet."""
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
    """Somebody else has the folder."""


class ToldToStop(Exception):
    """Before the folder was free."""


@asynccontextmanager
async def held(folder: Path, *, keep: bool, patience: float, stop: asyncio.Event) -> AsyncIterator[int]:
    """The descriptor of the lock, held within the context. What the last ``up`` left behind gets ``patience`` seconds to end.

    Raises ``AlreadyRunning``; ``ToldToStop`` if ``stop`` is set before it is ours.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _locked(descriptor, fcntl.LOCK_EX):
            other = _holder(descriptor)
            if other.process is not None and other.lives:
                raise AlreadyRunning(
                    f"pilothouse is up on {folder} already, as process {other.process.pid}: "
                    f"`pilothouse status --data {folder}` shows it, `pilothouse down --data {folder}` stops it"
                )
            if time.monotonic() > deadline:
                raise AlreadyRunning(
                    f"something of an earlier `pilothouse up` on {folder} has not ended in {patience:g} s; "
                    f"`fuser {folder / _LOCK}` names it"
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await stop.wait()
            if stop.is_set():
                raise ToldToStop
        remove(folder)
        _say(descriptor, FolderHolder(identify(os.getpid()), keep))
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def free(folder: Path) -> Iterator[bool]:
    """Whether nobody has it; then nobody takes it within the context."""
    with _lock_file(folder) as descriptor:
        yield descriptor is None or _locked(descriptor, fcntl.LOCK_EX)


def holder(folder: Path) -> FolderHolder | None:
    """Who has the folder; None if nobody does."""
    with _lock_file(folder) as descriptor:
        if descriptor is None or _locked(descriptor, fcntl.LOCK_SH):
            return None
        return _holder(descriptor)


def write(folder: Path, report: UpReport) -> None:
    write_private(folder / _REPORT, json.dumps(asdict(report), indent=2).encode() + b"\n")


def remove(folder: Path) -> None:
    (folder / _REPORT).unlink(missing_ok=True)


def running(folder: Path) -> UpReport | None:
    """The report of the ``up`` that has the folder; None if there is none."""
    return None if holder(folder) is None else _read(folder)


@contextmanager
def _lock_file(folder: Path) -> Iterator[int | None]:
    """Open; None where there never was an ``up``."""
    try:
        descriptor = _opened(folder / _LOCK)
    except FileNotFoundError:
        yield None
        return
    except PermissionError:
        raise StartError(f"{folder} belongs to another user; ask as that user") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(lock: Path) -> int:
    """For writing where that is possible, which network filesystems want of those that lock."""
    try:
        return os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError as problem:
        if problem.errno != errno.EROFS:
            raise
        return os.open(lock, os.O_RDONLY | os.O_CLOEXEC)


def _locked(descriptor: int, how: int) -> bool:
    """Whether the lock is ours now. Those who only look share it, and so are never taken for holders by each other."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _say(descriptor: int, who: FolderHolder) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(who), 0)
    except OSError as problem:
        raise StartError(f"the data folder can't be written: {problem.strerror}") from None


def _holder(descriptor: int) -> FolderHolder:
    try:
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=FolderHolder)
    except msgspec.MsgspecError:
        # It is being written.
        return FolderHolder()


def _read(folder: Path) -> UpReport | None:
    try:
        told = json.loads((folder / _REPORT).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return UpReport(**{**told, "roles": tuple(ProcessReport(**each) for each in told["roles"])})
