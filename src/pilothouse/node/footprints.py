"""How much a folder takes on the disk.

footprint(folder)                        # Footprint(size=1_052_672, files=12)
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec


class Footprint(msgspec.Struct, frozen=True):
    """Of some files and folders."""

    size: int
    """Bytes."""
    files: int
    """Inodes."""

    def __add__(self, other: Footprint) -> Footprint:
        return Footprint(self.size + other.size, self.files + other.files)


def size_of(folder: Path) -> int:
    """The bytes that the files of a folder take on the disk."""
    return footprint(folder).size


def footprint(folder: Path) -> Footprint:
    """Of the files of a folder, within its filesystem. What goes meanwhile counts no more."""
    size, files, waiting = 0, 0, [folder]
    device = _stat(folder.lstat)
    while waiting and device is not None:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    found = _stat(lambda entry=entry: entry.stat(follow_symlinks=False))
                    if found is None or found.st_dev != device.st_dev:
                        continue
                    size += found.st_blocks * 512
                    files += 1
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(Path(entry.path))
        except (FileNotFoundError, PermissionError):
            continue
    return Footprint(size, files)


def _stat(ask: Callable[..., Any]) -> os.stat_result | None:
    try:
        found: os.stat_result = ask()
    except FileNotFoundError:
        return None
    return found
