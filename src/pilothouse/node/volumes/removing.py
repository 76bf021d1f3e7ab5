"""Folders taken away for good, and nothing beyond them.

Whatever is mounted at or below the folder is unmounted first, and if that fails nothing is removed: what is mounted there is somebody
else's, a database's files perhaps. Links are removed, never followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pilothouse.node.volumes.machine import unmount_below


def remove(folder: Path) -> None:
    """Does nothing if there is no such folder. Raises OSError."""
    unmount_below(folder)
    if not folder.exists():
        return
    device = folder.lstat().st_dev
    _empty(folder, device)
    folder.rmdir()


def _empty(folder: Path, device: int) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        folder.chmod(0o700)
    with os.scandir(folder) as entries:
        for entry in list(entries):
            path, found = Path(entry.path), entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                path.unlink()
            elif found.st_dev != device:
                raise OSError(16, "something is mounted here; it is left alone", str(path))
            else:
                _empty(path, device)
                path.rmdir()


def size_of(folder: Path) -> int:
    """The bytes that the files of a folder take on the disk, within its filesystem. What goes meanwhile counts no more."""
    total, waiting = 0, [folder]
    device = _stat(folder.lstat)
    while waiting and device is not None:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    found = _stat(lambda entry=entry: entry.stat(follow_symlinks=False))
                    if found is None or found.st_dev != device.st_dev:
                        continue
                    total += found.st_blocks * 512
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(Path(entry.path))
        except (FileNotFoundError, PermissionError):
            continue
    return total


def _stat(ask: Callable[..., Any]) -> os.stat_result | None:
    try:
        found: os.stat_result = ask()
    except FileNotFoundError:
        return None
    return found
