"""The registry of this user's control planes and nodes on this machine, by data folder.

    with registered(Path("/srv/plane"), "up", print): ... # for as long as it runs
    entries()                                           # what other commands of the same user see

One file per data folder and role, in a folder that belongs to the user alone, locked by the process that
runs: so one that was killed leaves an entry that is not running, and no process id has to be trusted. A
folder or file that does not belong to this user or to root, that others may write, or that is a link, is
ignored.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from pilothouse.supervise.process_identity import ProcessIdentity

Role = Literal["up", "apiserver", "node"]

VARIABLE: Final = "PILOTHOUSE_RUNTIME_DIR"
_PREFIXES: Final = ("up-", "apiserver-", "node-")
_LOCK_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.01
_LARGEST: Final = 2**16


@dataclass(frozen=True)
class RegistryEntry:
    """A data folder that a process of this user runs on, or ran on when it was killed."""

    data: Path
    role: Role
    running: bool
    process: ProcessIdentity | None = None
    """The process that runs, or ran, there."""


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path:
    if named := environ.get(VARIABLE):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/run/pilothouse")
    state = environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "pilothouse"


def is_trusted(found: os.stat_result) -> bool:
    """Whether only this user and root can have written it."""
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@contextmanager
def registered(data: Path, role: Role, say: Callable[[str], None]) -> Iterator[None]:
    """Register within the context, for other commands. A failure is only reported."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_entry(data, role))
        except (OSError, RuntimeError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
            say(f"other commands need --data {data} to find this process: {runtime_folder()}: {reason}")
        yield


@contextmanager
def _entry(data: Path, role: Role) -> Iterator[None]:
    folder = runtime_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{role}-{hashlib.sha256(os.fsencode(data)).hexdigest()[:16]}"
    with _opened_folder(folder) as directory:
        _forget_removed(directory)
        descriptor = _locked_file(directory, name)
        if descriptor is None:
            # Another process runs on this folder; this one will notice, and exit.
            yield
            return
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _content(data, role), 0)
            yield
        finally:
            # While it is still locked, so that no other process's entry is removed.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
            os.close(descriptor)


def _content(data: Path, role: Role) -> bytes:
    from pilothouse.supervise.process_identity import identify

    me = identify(os.getpid())
    entry = {"data": str(data), "role": role, "boot": me.boot, "pid": me.pid, "ticks": me.ticks}
    return json.dumps(entry).encode()


def entries() -> list[RegistryEntry]:
    """All entries, running ones first. Files of other users than this one and root are ignored."""
    try:
        with _opened_folder(runtime_folder()) as directory:
            found = [entry for name in sorted(os.listdir(directory)) if (entry := _read(directory, name))]
    except (OSError, RuntimeError):
        # RuntimeError: a user without a home.
        return []
    return sorted(found, key=lambda entry: not entry.running)


@contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    """The folder. Raises ``PermissionError`` if others can write it."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not is_trusted(os.fstat(directory)):
            raise PermissionError(errno.EPERM, "other users can write it", str(folder))
        yield directory
    finally:
        os.close(directory)


def _locked_file(directory: int, name: str) -> int | None:
    """The entry's file, locked; None if another process has it. Readers lock only briefly."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=directory)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                return None
        os.close(descriptor)
        time.sleep(_LOOK_SECONDS)


def _read(directory: int, name: str) -> RegistryEntry | None:
    if not name.startswith(_PREFIXES):
        # Other parts keep their files beside the entries.
        return None
    # Non-blocking: opening a pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not is_trusted(found):
            return None
        tree = json.loads(os.pread(descriptor, _LARGEST, 0))
        if tree["role"] not in ("up", "apiserver", "node") or not os.path.isabs(tree["data"]):
            return None
        from pilothouse.supervise.process_identity import ProcessIdentity

        process = ProcessIdentity(str(tree["boot"]), int(tree["pid"]), int(tree["ticks"]))
        return RegistryEntry(Path(tree["data"]), tree["role"], _is_held(descriptor), process)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    finally:
        os.close(descriptor)


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _forget_removed(directory: int) -> None:
    """Remove entries of killed planes whose data folder is gone."""
    for name in os.listdir(directory):
        entry = _read(directory, name)
        if entry is not None and not entry.running and not entry.data.exists():
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory)
