"""Measures the disk usage of a directory.

    measure_disk_usage(folder)               # DirectoryUsage(size=1_052_672, files=12)
    measure_disk_usage(folder).unmeasured    # "" or why there may be more: "more than 500000 files …"

The owner of the files may try to hide them, so a closed directory is opened where the agent is its owner, and
the result says what the limits of depth, entries and time left unmeasured.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.node.files.directory_handles import LISTED, open_walked, walk
from pilothouse.node.files.walk_limits import Meter, WalkLimit, WalkTooLong

MEASURED: Final = WalkLimit(depth=4096, entries=500_000, seconds=60.0)
"""The limit for a pod's files outside of its claims."""


class DirectoryUsage(msgspec.Struct, frozen=True):
    size: int
    """Bytes."""
    files: int
    """Inodes."""
    unmeasured: str = ""
    """Why it may be more; empty if it isn't."""
    timed_out: bool = False
    """Whether the time limit is why: on a less busy disk it may be measured."""

    def __add__(self, other: DirectoryUsage) -> DirectoryUsage:
        return DirectoryUsage(
            self.size + other.size,
            self.files + other.files,
            self.unmeasured or other.unmeasured,
            self.timed_out or other.timed_out,
        )


def measure_disk_usage(folder: Path, meter: Meter | None = None) -> DirectoryUsage:
    """The usage of a directory, within its filesystem. ``meter``: a shared limit. Raises OSError."""
    meter = meter or Meter(MEASURED)
    size, files, unmeasured, timed_out = 0, 0, "", False

    def skip(problem: OSError) -> None:
        nonlocal unmeasured
        if problem.errno in (errno.EACCES, errno.EPERM):
            unmeasured = _closed(problem)
        elif problem.errno != errno.EXDEV:  # Another filesystem is not the folder's.
            raise problem

    try:
        # Root may list everything. Others are stopped by modes that a pod of the same user sets.
        rights = 0 if os.geteuid() == 0 else LISTED
        with open_walked(folder, rights) as top:
            device = os.fstat(top).st_dev
            for entry in walk(top, same_mount=True, rights=rights, meter=meter, onerror=skip):
                try:
                    found = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if found.st_dev == device:
                    size += found.st_blocks * 512
                    files += 1
    except (FileNotFoundError, NotADirectoryError):
        pass
    except PermissionError as problem:
        unmeasured = _closed(problem)
    except WalkTooLong as problem:
        unmeasured, timed_out = str(problem), problem.timed_out
    return DirectoryUsage(size, files, unmeasured, timed_out)


def _closed(problem: OSError) -> str:
    return f"{problem.filename} can't be listed"
