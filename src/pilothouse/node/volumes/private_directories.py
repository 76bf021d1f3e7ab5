"""The node's own directories, which no pod may mount by a ``hostPath``.

    private = PrivateDirectories(("/var/lib/pilothouse", "/mnt/ssd"))
    private.hold("/var/lib/pilothouse/pki")        # True: a hostPath that is refused
    private.below("/var")                          # ["lib/pilothouse"]: what is covered in a hostPath of /var

Directories are compared by device and inode, so links and second mounts don't bypass the check.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


class PrivateDirectories:
    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._paths = tuple(dict.fromkeys(os.path.realpath(each) for each in paths))

    def hold(self, path: str | Path) -> bool:
        """Whether a path is in one of the directories."""
        own = {identity for each in self._paths if (identity := _identity(each)) is not None}
        return any(_identity(each) in own for each in _upward(os.path.realpath(path)))

    def below(self, path: str | Path) -> list[str]:
        """The relative paths of those of the directories that are below another one."""
        identity = _identity(path)
        if identity is None:
            return []
        found = (
            os.path.relpath(own, above)
            for own in self._paths
            if os.path.isdir(own)
            for above in _upward(os.path.dirname(own))
            if _identity(above) == identity
        )
        return sorted(set(found))


def _identity(path: str | Path) -> tuple[int, int] | None:
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
