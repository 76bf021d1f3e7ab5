"""Reserved disk space, so that a store can delete and compact when its disk is full. All calls block.

    reserve = DiskReserve(Path("data/store"))
    reserve.make()                              # a file of 32 MiB; whether there was room for it
    reserve.release(database, log)              # the disk is full: whether there was anything to give back

The database gets five eighths, as the whole write-ahead log (16 MiB) must fit into it before the log
restarts; the log two; small files the rest. Released space is allocated at once behind the end of these
files, where the filesystem can do so, so that other programs get little of it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

SIZE = 32 << 20
_FILE = "reserve"
_KEEP_SIZE = 1


class DiskReserve:
    """An empty file that holds space."""

    def __init__(self, folder: Path, size: int = SIZE) -> None:
        self._path = folder / _FILE
        self.size = size

    @property
    def exists(self) -> bool:
        try:
            return self._path.stat().st_size >= self.size
        except FileNotFoundError:
            return False

    def make(self) -> bool:
        """Reserve space, unless it is already; whether it is. Some room must be left besides."""
        if self.exists:
            return True
        if self._free() < self.size + self.size // 4:
            return False
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self.size)
            except OSError:
                os.ftruncate(descriptor, 0)
                raise
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return True

    def release(self, database: Path, log: Path) -> bool:
        """Give the space to these files; False if there was none."""
        if not self.exists:
            return False
        try:
            os.truncate(self._path, 0)
        except OSError:
            return False
        self.hold(database)
        _reserve_behind(log, self.size // 8 * 2)
        return True

    def hold(self, database: Path) -> None:
        """Allocate blocks behind the end of a database, as many as possible. A checkpoint frees them."""
        for eighths in (5, 2, 1):
            if _reserve_behind(database, self.size // 8 * eighths):
                return

    def _free(self) -> int:
        try:
            found = os.statvfs(self._path.parent)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize


def _reserve_behind(file: Path, size: int) -> bool:
    """Allocate blocks behind a file's end; whether there were any."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        end = os.fstat(descriptor).st_size
        libc = ctypes.CDLL(None)
        done = libc.fallocate(descriptor, _KEEP_SIZE, ctypes.c_int64(end), ctypes.c_int64(size))
        return bool(done == 0)
    finally:
        os.close(descriptor)
