"""Opens a path below a volume: ``subPath`` and ``subPathExpr``.

    with opened(volume, "data/pg") as handle: ...   # a handle on it, whatever happens to the path meanwhile

The pod can write to the volume, links included, so a path in it is not trusted. The kernel resolves it from a
handle on the volume, and follows links only beneath that. Missing directories are created, with the mode of
the volume's own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

from pilothouse.node.files.directory_handles import (
    DIRECTORY,
    closing_handle,
    open_beneath,
    open_directory,
    opened_beneath,
)

_REFUSED: Final = {
    errno.EXDEV: "leads out of the volume, by a link",
    errno.ELOOP: "goes through links that lead nowhere, or were put there meanwhile",
    errno.ENOTDIR: "goes through something that is not a folder",
}


class SubpathError(Exception):
    """A path leads out of its volume, or nowhere."""


@contextmanager
def opened(volume: Path, path: str) -> Iterator[int]:
    """A handle on a path in a volume. Raises SubpathError, OSError."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise SubpathError(f"subPath {path!r} must be a relative path without '..'")
    with open_directory(volume, follow=True) as top:
        try:
            handle = _open_or_make(top, pure.parts)
        except OSError as problem:
            if problem.errno not in _REFUSED:
                raise
            raise SubpathError(f"subPath {path!r} {_REFUSED[problem.errno]}") from None
    with closing_handle(handle):
        yield handle


def _open_or_make(top: int, names: tuple[str, ...]) -> int:
    mode = stat.S_IMODE(os.fstat(top).st_mode)
    for count in range(len(names) + 1):
        # Each time from the top, so that links may lead anywhere in the volume.
        part = "/".join(names[:count]) or "."
        try:
            handle = open_beneath(top, part, os.O_PATH, follow=True)
        except FileNotFoundError:
            above = "/".join(names[: count - 1]) or "."
            with opened_beneath(top, above, DIRECTORY, follow=True) as folder:
                handle = _made(folder, names[count - 1], mode)
        if count < len(names):
            os.close(handle)
    return handle


def _made(folder: int, name: str, mode: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        handle = open_beneath(folder, name, DIRECTORY)
        os.fchmod(handle, mode)
        return handle
    # Another process made it, or it is a dangling link, for which this raises ELOOP.
    return open_beneath(folder, name, DIRECTORY)
