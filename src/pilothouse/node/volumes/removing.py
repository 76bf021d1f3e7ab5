"""Folders taken away for good, and nothing beyond them.

Whatever is mounted at or below the folder is unmounted first, and if that fails nothing is removed: what is mounted there is somebody
else's, a database's files perhaps. Links are removed, never followed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

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
