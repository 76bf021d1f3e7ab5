"""The node's own directories, which no pod may mount by a ``hostPath``.

    private = PrivateDirectories(("/var/lib/pilothouse", "/mnt/ssd"))
    private.hold("/var/lib/pilothouse/pki")        # True: a hostPath that is refused
    private.below("/var")                          # ["lib/pilothouse"]: what is covered in a hostPath of /var

Folders are compared by device and inode, so that a link or a second mount of the same filesystem is no way around.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


class PrivateDirectories:
    """A data folder, and what else is the node's own."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._paths = tuple(dict.fromkeys(os.path.realpath(each) for each in paths))

    def hold(self, path: str | Path) -> bool:
        """Whether a path is one of the folders, or is in one."""
        own = {mark for each in self._paths if (mark := _mark(each)) is not None}
        return any(_mark(each) in own for each in _upward(os.path.realpath(path)))

    def below(self, path: str | Path) -> list[str]:
        """Where the folders are in another one, from there."""
        mark = _mark(path)
        if mark is None:
            return []
        found = (
            os.path.relpath(own, above)
            for own in self._paths
            if os.path.isdir(own)
            for above in _upward(os.path.dirname(own))
            if _mark(above) == mark
        )
        return sorted(set(found))


def _mark(path: str | Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _upward(path: str) -> Iterator[str]:
    yield path
    while path != "/":
        path = os.path.dirname(path)
        yield path
