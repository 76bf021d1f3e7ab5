"""The rotated files of one log, which are renamed while they are read.

    log        the newest records
    log.1      those before
    log.2      …

When ``log`` is full, each file takes the next number and the oldest goes. An open file stays readable; a
reader finds the next one by its own file's inode.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from pilothouse.node.files.directory_handles import open_regular

_MOST_TRIES = 100


def numbered(path: Path) -> list[Path]:
    """All files of a log, the oldest first."""
    found: list[tuple[int, Path]] = []
    for each in path.parent.glob(f"{path.name}*"):
        suffix = each.name[len(path.name) :]
        if not suffix:
            found.append((0, each))
        elif suffix[0] == "." and suffix[1:].isdecimal():
            found.append((int(suffix[1:]), each))
    return [each for _, each in sorted(found, reverse=True)]


def oldest(path: Path) -> BinaryIO | None:
    """The file to begin with; None if there is none yet."""
    for _ in range(_MOST_TRIES):
        files = numbered(path)
        if not files:
            return None
        try:
            return open_regular(files[0])
        except FileNotFoundError:
            continue  # It was rotated away; the next one is the oldest now.
    return None


def newest(path: Path) -> BinaryIO | None:
    """The file that is written; None if there is none yet."""
    for _ in range(_MOST_TRIES):
        files = numbered(path)
        if not files:
            return None
        try:
            return open_regular(files[-1])
        except FileNotFoundError:
            continue  # It was rotated.
    return None


def following(path: Path, file: BinaryIO) -> BinaryIO | None:
    """The file after an open one; None if that is the newest. If it is gone, the oldest that is left."""
    mine = os.fstat(file.fileno()).st_ino
    for _ in range(_MOST_TRIES):
        files = numbered(path)
        places = [_inode(each) for each in files]
        if 0 in places:
            continue  # The files moved while we looked.
        if mine not in places:
            return oldest(path) if files else None
        newer = places.index(mine) + 1
        if newer == len(files):
            return None
        try:
            opened = open_regular(files[newer])
        except FileNotFoundError:
            continue
        if os.fstat(opened.fileno()).st_ino == places[newer]:
            return opened
        opened.close()
    return None


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return 0
