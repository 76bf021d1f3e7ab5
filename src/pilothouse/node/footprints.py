"""How much a folder takes on the disk.

footprint(folder)                        # Footprint(size=1_052_672, files=12)
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from pilothouse.node.directory_handles import open_directory, walk


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
    size, files = 0, 0
    try:
        with open_directory(folder, follow=True) as top:
            device = os.fstat(top).st_dev
            for entry in walk(top, same_mount=True, onerror=_pass_over):
                try:
                    found = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if found.st_dev == device:
                    size += found.st_blocks * 512
                    files += 1
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return Footprint(size, files)
    return Footprint(size, files)


def _pass_over(problem: OSError) -> None:
    """A folder of another filesystem, or one that is closed to us."""
