"""A part of a volume, mounted by its path: ``subPath`` and ``subPathExpr``.

    with opened(volume, "data/pg") as handle: ...       # a handle on it, whatever happens to the path meanwhile

What is in a volume is the pod's to write, links included, so a path in it is not to be trusted: it is followed a name at a time
without following links, after links that stay within the volume have been resolved. What comes out is a handle: it stays what was looked
at even if somebody exchanges the path for a link the moment after. Folders that are missing are made, with the rights of the volume's own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANY: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class SubpathError(Exception):
    """A path that leads out of its volume, or nowhere."""


@contextmanager
def opened(volume: Path, path: str) -> Iterator[int]:
    """A handle on a part of a volume. Raises SubpathError, OSError."""
    top = Path(os.path.realpath(volume))
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise SubpathError(f"subPath {path!r} must be a relative path without '..'")
    end = Path(os.path.realpath(top / path))
    if end != top and top not in end.parents:
        raise SubpathError(f"subPath {path!r} leads out of the volume, by a link to {end}")
    handle = os.open(top, _FOLDER)
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    try:
        for name in end.relative_to(top).parts:
            handle = _step(handle, name, mode, path)
        yield handle
    finally:
        os.close(handle)


def _step(folder: int, name: str, mode: int, path: str) -> int:
    """The entry of a folder, made if it is missing. Closes the folder."""
    try:
        try:
            following = os.open(name, _ANY, dir_fd=folder)
        except FileNotFoundError:
            os.mkdir(name, 0o700, dir_fd=folder)
            following = os.open(name, _FOLDER, dir_fd=folder)
            os.fchmod(following, mode)
    except NotADirectoryError:
        raise SubpathError(f"subPath {path!r} goes through something that is no folder") from None
    if stat.S_ISLNK(os.fstat(following).st_mode):
        os.close(following)
        raise SubpathError(f"subPath {path!r} goes through a link that was put there meanwhile")
    os.close(folder)
    return following
