"""Removes directories, and nothing beyond them.

Whatever is mounted at or below the folder is unmounted first, and if that fails nothing is removed: what is mounted there is somebody
else's, a database's files perhaps. Links are removed, never followed, not even those that take a folder's place meanwhile.
"""

from __future__ import annotations

import errno
from pathlib import Path

from pilothouse.node.files.directory_handles import open_directory, remove_tree
from pilothouse.node.volumes.mount_table import unmount_below


def remove(folder: Path) -> None:
    """Does nothing if there is no such folder. Raises OSError."""
    unmount_below(folder)
    try:
        with open_directory(folder.parent, follow=True) as above:
            remove_tree(above, folder.name)
    except FileNotFoundError:
        return
    except OSError as problem:
        why = problem.strerror
        if problem.errno == errno.ENOTEMPTY:
            why = "another process keeps writing there"
        raise OSError(problem.errno, why, f"{folder.parent}/{problem.filename or folder.name}") from None
