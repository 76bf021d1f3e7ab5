"""The audit log file and its rotated backups, readable by their owner only. Calls block.

    log = LogFile(Path("audit.log"), Rotation(size=100 * MEGABYTE, backups=10, age=30 * DAY))
    log.write(lines)
    log.files()      # audit.log, audit-2026-02-03T04-05-06.789.log, …: the newest first

``write`` writes all lines or raises ``OSError`` and leaves none. A file that was moved away is created again.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec

MEGABYTE = 1024 * 1024
DAY = 24 * 3600.0
_STAMP = "%Y-%m-%dT%H-%M-%S"


class Rotation(msgspec.Struct, frozen=True):
    """When a file is rotated, and how long backups are kept. 0 is no limit."""

    size: int = 100 * MEGABYTE
    backups: int = 10
    age: float = 30 * DAY


class LogFile:
    def __init__(self, path: Path, rotation: Rotation, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._rotation = rotation
        self._now = now
        self._handle = -1
        self._size = 0
        self._regular = True
        self._backup = re.compile(
            rf"{re.escape(path.stem)}-(\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{{3}}){re.escape(path.suffix)}"
        )

    def open(self) -> None:
        """Open the file, creating it and its folder, and start a new line."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            found = os.fstat(handle)
            self._regular = stat.S_ISREG(found.st_mode)
            if self._regular:
                os.fchmod(handle, 0o600)
                if found.st_size and os.pread(handle, 1, found.st_size - 1) != b"\n":
                    os.write(handle, b"\n")
            size = os.fstat(handle).st_size
        except BaseException:
            os.close(handle)
            raise
        self._handle, self._size = handle, size
        self._prune()

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def write(self, lines: bytes) -> None:
        if self._handle >= 0 and self._moved():
            self.close()
        if self._handle < 0:
            self.open()
        limit = self._rotation.size
        if limit and self._regular and self._size and self._size + len(lines) > limit:
            self._rotate()
        self._append(lines)

    def files(self) -> list[BinaryIO]:
        """The file and its backups, newest first, open for reading; the caller closes them.

        The file is opened before the backups are listed, so a concurrent rotation hides nothing."""
        current = _opened([self.path])
        newest_first = current + _opened(reversed(self.backups()))
        by_number = {os.fstat(file.fileno()).st_ino: file for file in reversed(newest_first)}
        for file in newest_first:
            if file not in by_number.values():
                file.close()
        return [file for file in newest_first if not file.closed]

    def backups(self) -> list[Path]:
        """The rotated files, oldest first."""
        if not self.path.parent.is_dir():
            return []
        return sorted(each for each in self.path.parent.iterdir() if self._backup.fullmatch(each.name))

    def _moved(self) -> bool:
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, os.fstat(self._handle))

    def _append(self, lines: bytes) -> None:
        start, left = self._size, memoryview(lines)
        try:
            while left:
                written = os.write(self._handle, left)
                self._size += written
                left = left[written:]
        except OSError:
            # What was written of the lines is taken back: they come again, whole.
            if self._regular:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._handle, start)
                    self._size = start
            raise

    def _rotate(self) -> None:
        self.close()
        moment = self._now()
        while (aside := self._aside(moment)).exists():
            moment += 0.001
        os.rename(self.path, aside)
        self.open()

    def _aside(self, moment: float) -> Path:
        milliseconds = round(moment * 1000)
        text = time.strftime(_STAMP, time.gmtime(milliseconds // 1000))
        return self.path.with_name(f"{self.path.stem}-{text}.{milliseconds % 1000:03d}{self.path.suffix}")

    def _prune(self) -> None:
        rotation, kept = self._rotation, self.backups()
        oldest = self._aside(self._now() - rotation.age).name if rotation.age else ""
        surplus = len(kept) - rotation.backups if rotation.backups else 0
        for index, backup in enumerate(kept):
            if index < surplus or backup.name < oldest:
                backup.unlink(missing_ok=True)


def _opened(paths: Iterable[Path]) -> list[BinaryIO]:
    files: list[BinaryIO] = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            files.append(path.open("rb"))
    return files
