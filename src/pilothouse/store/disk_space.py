"""How a SQLite store handles a full disk.

    space = DiskSpace(file, log)
    space.within(lambda: log.append(rows))      # tried again with the reserve when the disk is full
    space.admits(len(value), replaced=len(old)) # whether a write may be tried at all
    space.look()                                # is there room again?

The first write that finds the disk full uses the reserve (``disk_reserve``). From then on only deletions and
updates that hardly grow are accepted, so that leases are renewed and finalizers removed; updates get a
limited part of the reserve. This ends when the reserve can be made again, or the database has as many free
pages. ``admits`` is for the loop's thread, all else for the writing thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from pilothouse.store.disk_reserve import DiskReserve
from pilothouse.store.revision_log import DISK_FULL, NO_WAY_IN, RevisionLog, Row

_GROWTH = 4096
"""Bytes by which an update may grow a value on a full disk."""
_ROW = 128
"""Bytes of a row beside its key and value, about."""

R = TypeVar("R")
_log = logging.getLogger(__name__)


class DiskSpace:
    def __init__(self, file: Path, log: RevisionLog, *, full: bool = False) -> None:
        self._file = file
        self._log = log
        self._reserve = DiskReserve(file.parent)
        self._updated = 0
        """Bytes of updates since the disk is full, or since they were last forgotten."""
        self._is_reserve_missing = False
        self._pages_are_reserve = False
        self.full = False
        if full:
            self._begin()

    def admits(self, size: int, *, replaced: int | None) -> bool:
        """Whether a value of this size may be written; ``replaced`` is the old size, None for a new key."""
        if not self.full:
            return True
        if replaced is None or size > replaced + _GROWTH:
            return False
        return self._updated + size < self._reserve.size // 8

    def within(self, act: Callable[[], R]) -> R:
        """Run a write, and once more with the reserve if the disk is full. It must be atomic."""
        try:
            return act()
        except DISK_FULL:
            self._begin()
            if not self._reserve.release(*files_of(self._file)):
                raise
            return act()

    def checkpoint(self) -> None:
        """Move the pages of the write-ahead log into the database."""
        self.within(self._log.checkpoint)
        if self.full:
            self._reserve.hold(self._file)

    def written(self, rows: Iterable[Row]) -> None:
        if self.full:
            self._updated += sum(_ROW + len(row.value) for row in rows if row.value is not None)
        elif self._pages_are_reserve and self._log.free_bytes < self._reserve.size // 2:
            self._begin()

    def swept(self) -> None:
        """History was removed; its pages are reused."""
        self._updated = 0

    def keep_back(self) -> None:
        """Make the reserve. Without room for it a message is logged and it is retried later."""
        made = self.full or self._reserve.make()
        if not made and not self._is_reserve_missing:
            _log.warning(
                "%s: no room to keep %d MiB back for when the disk is full",
                self._file.parent,
                self._reserve.size >> 20,
            )
        self._is_reserve_missing = not made

    def look(self) -> None:
        """Check whether there is room again."""
        if not self.full:
            return
        made = self._reserve.make()
        if made or self._log.free_bytes >= self._reserve.size:
            self._pages_are_reserve = not made
            self.full = self._log.frugal = False
            _log.warning("%s: there is space again, and writes are accepted", self._file.parent)

    def _begin(self) -> None:
        if self.full:
            return
        self.full = self._log.frugal = True
        self._updated = 0
        _log.error(
            "%s: the disk is full. Objects can be deleted, and changed without growing much; everything "
            "else is refused until there is space",
            self._file.parent,
        )


def opened_log(file: Path, vfs: str) -> tuple[RevisionLog, bool]:
    """The log, and whether the reserve had to be released for it: SQLite needs disk space even to read."""
    try:
        return RevisionLog(file, vfs=vfs), False
    except NO_WAY_IN:
        if not DiskReserve(file.parent).release(*files_of(file)):
            raise
        return RevisionLog(file, vfs=vfs), True


def files_of(file: Path) -> tuple[Path, Path]:
    """The files that a write makes grow."""
    return file, file.with_name(f"{file.name}-wal")
