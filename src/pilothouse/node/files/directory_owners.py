"""Whether other users of the machine could replace what is in a directory.

why_replaceable(Path("/opt/db"), "the program")     # "", or "/opt belongs to user 1000, who could …"
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def why_replaceable(folder: Path, what: str) -> str:
    """Why others could replace what is in a directory, and what to do; empty if they can't. For a missing
    directory, those above it count."""
    for each in _upward(folder):
        try:
            found = each.stat()
        except FileNotFoundError:
            continue
        if found.st_uid not in (0, os.geteuid()):
            user, ours = found.st_uid, os.geteuid()
            why = f"{each} belongs to user {user}, who could exchange {what} in it"
            return f"{why}: take a folder of user {ours}, who runs the node"
        if found.st_mode & _others(found) and not found.st_mode & stat.S_ISVTX:
            why = f"{each} can be written by other users, who could exchange {what} in it"
            return f"{why}: chmod go-w {each}"
    return ""


def _others(found: os.stat_result) -> int:
    """The write bits of all but root, our user, and their groups."""
    return stat.S_IWOTH if found.st_gid in (0, os.getegid()) else stat.S_IWOTH | stat.S_IWGRP


def _upward(folder: Path) -> Iterator[Path]:
    """The directory and all above it, as written and with links resolved."""
    for path in dict.fromkeys((folder.absolute(), Path(os.path.realpath(folder)))):
        yield path
        yield from path.parents
