"""Locks on blocks of loopback addresses, which no pod and no other user can take.

    locks = BlockLocks.open(Path("/var/lib/pilothouse/node"))
    locks.lock(7)           # whether block 7 is ours until `close`
    locks.close()

Each block is a byte of one file, locked for this open file (``F_OFD_SETLK``): the kernel drops the lock with the process. The
file is 0600 in a folder that its owner alone can write: ``/run/pilothouse`` of root, ``/run/user/UID/pilothouse`` or
``/tmp/pilothouse-UID`` of anybody else. A folder that is there already is used only if it is a real one and ours; where another
user made it first, the next place is tried, and at last the agent's own data folder. So nobody keeps an agent from having locks; at worst
agents do not share them.
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

_FILE: Final = "address-blocks.lock"
_FLOCK: Final = "hhqqi4x"
"""The kernel's ``struct flock``: type, whence, start, length, process."""

log = logging.getLogger(__name__)


class BlockLocks:
    """An open file of locks."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, data: Path) -> BlockLocks:
        """In the first place that is ours alone. ``data`` is the agent's own folder. Raises OSError if not even that can be written."""
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
        """Whether a block is ours from here on."""
        return self._set(fcntl.F_WRLCK, number)

    def unlock(self, number: int) -> None:
        self._set(fcntl.F_UNLCK, number)

    def close(self) -> None:
        """Unlock all of them."""
        os.close(self._descriptor)

    def _set(self, kind: int, number: int) -> bool:
        wish = struct.pack(_FLOCK, kind, os.SEEK_SET, number, 1, 0)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, wish)
        except OSError as problem:
            if problem.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True


_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def _shared_places(user: int) -> Iterator[Path]:
    """Folders that all agents of a user look into, the best first."""
    if user == 0:
        yield Path("/run/pilothouse")
    else:
        yield Path(f"/run/user/{user}/pilothouse")
        yield Path(f"/tmp/pilothouse-{user}")


def _opened(folder: Path) -> int:
    """The file of locks in a folder, which is made if need be. Raises OSError if another user could take it away from us."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_ours(handle, folder)
        descriptor = os.open(_FILE, _FLAGS, 0o600, dir_fd=handle)
    finally:
        os.close(handle)
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
