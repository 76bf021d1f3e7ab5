"""Mounts a path below a volume: ``subPath`` and ``subPathExpr``.

    with opened(volume, "data/pg") as handle: ...       # a handle on it, whatever happens to the path meanwhile

What is in a volume is the pod's to write, links included, so a path in it is not to be trusted. The kernel
follows it from a handle on the volume, and links only as far as they stay beneath that. What comes out is a
handle too: it stays what was looked at even if somebody exchanges the path for a link the moment after.
Folders that are missing are made, with the rights of the volume's own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

from pilothouse.node.files.directory_handles import DIRECTORY, open_beneath, open_directory

_REFUSED: Final = {
    errno.EXDEV: "leads out of the volume, by a link",
    errno.ELOOP: "goes through links that lead nowhere, or were put there meanwhile",
    errno.ENOTDIR: "goes through something that is not a folder",
}


class SubpathError(Exception):
    """A path that leads out of its volume, or nowhere."""


@contextmanager
def opened(volume: Path, path: str) -> Iterator[int]:
    """A handle on a part of a volume. Raises SubpathError, OSError."""
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
    try:
        yield handle
    finally:
        os.close(handle)


def _open_or_make(top: int, names: tuple[str, ...]) -> int:
    mode = stat.S_IMODE(os.fstat(top).st_mode)
    for count in range(len(names) + 1):
        # Each time from the top, so that links may lead anywhere in the volume.
        part = "/".join(names[:count]) or "."
        try:
            handle = open_beneath(top, part, os.O_PATH, follow=True)
        except FileNotFoundError:
            above = open_beneath(top, "/".join(names[: count - 1]) or ".", DIRECTORY, follow=True)
            try:
                handle = _made(above, names[count - 1], mode)
            finally:
                os.close(above)
        if count < len(names):
            os.close(handle)
    return handle


def _made(folder: int, name: str, mode: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        handle = open_beneath(folder, name, DIRECTORY)
        os.fchmod(handle, mode)
        return handle
    # Somebody was faster, or it is a link to nothing: then ELOOP says so.
    return open_beneath(folder, name, DIRECTORY)
