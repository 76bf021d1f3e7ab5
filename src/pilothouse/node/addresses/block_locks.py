"""Locks on blocks of loopback addresses, which no pod and no other user can take.

    locks = BlockLocks.open(Path("/var/lib/pilothouse/node"))
    locks.lock(7)           # True if block 7 is ours until `close`
    locks.close()

Each block is a byte of one file, locked for the open file description (``F_OFD_SETLK``), so the kernel
releases it with the process. The file is 0600 in ``/run/pilothouse`` (root), ``/run/user/UID/pilothouse`` or
``/tmp/pilothouse-UID``. A directory that another user made first is skipped; the last resort is the agent's
data directory, where agents don't share locks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pilothouse.node.files.directory_handles import open_directory

_FILE: Final = "address-blocks.lock"
_FLOCK: Final = "hhqqi4x"
"""The kernel's ``struct flock``: type, whence, start, length, process."""

log = logging.getLogger(__name__)


class BlockLocks:
    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, data: Path) -> BlockLocks:
        """Open the lock file in the first directory that is ours, or else in ``data``. Raises OSError."""
        for place in _shared_places(os.geteuid()):
            try:
                return cls(place / _FILE, _opened(place))
            except FileNotFoundError:
                continue  # Not every machine has it.
            except OSError as problem:
                log.warning("locks of addresses can't be in %s: %s", place, problem)
        data.mkdir(parents=True, exist_ok=True)
        return cls(data / _FILE, os.open(data / _FILE, _FLAGS, 0o600))

    def lock(self, number: int) -> bool:
        """Try to lock a block; False if another agent has it."""
        return self._set(fcntl.F_WRLCK, number)

    def unlock(self, number: int) -> None:
        self._set(fcntl.F_UNLCK, number)

    def close(self) -> None:
        os.close(self._descriptor)

    def _set(self, kind: int, number: int) -> bool:
        request = struct.pack(_FLOCK, kind, os.SEEK_SET, number, 1, 0)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, request)
        except OSError as problem:
            if problem.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True


_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def _shared_places(user: int) -> Iterator[Path]:
    """Directories that all agents of a user look into, the best first."""
    if user == 0:
        yield Path("/run/pilothouse")
    else:
        yield Path(f"/run/user/{user}/pilothouse")
        yield Path(f"/tmp/pilothouse-{user}")


def _opened(folder: Path) -> int:
    """Open or create the lock file in a directory. Raises OSError if another user could replace it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    with open_directory(folder) as handle:
        _check_ours(handle, folder)
        descriptor = os.open(_FILE, _FLAGS, 0o600, dir_fd=handle)
    try:
        _check_ours(descriptor, folder / _FILE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_ours(descriptor: int, path: Path) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "belongs to another user or can be written by others", str(path))
    if stat.S_ISREG(found.st_mode) and (found.st_nlink != 1 or found.st_mode & 0o077):
        raise PermissionError(errno.EPERM, "can be opened by others", str(path))
