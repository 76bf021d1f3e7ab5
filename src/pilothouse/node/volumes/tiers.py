"""Checks that the directories which the operator provides for volumes are safe to use.

    tier_problem(Path("/mnt/ssd"))         # "", or "/mnt/ssd belongs to user 1000, …"

What a pod writes into a volume belongs to real users of the machine, root too, and may be set-user-id: the folder of each volume is
closed to all others. That holds only if nobody else can put another folder in its place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def tier_problem(folder: Path) -> str:
    """Why others could exchange what is in a folder, and what to do about it; empty if they could not.

    A folder that is not there yet is made by the agent; those above it count.
    """
    for each in _upward(folder):
        try:
            found = each.stat()
        except FileNotFoundError:
            continue
        if found.st_uid not in (0, os.geteuid()):
            return (
                f"{each} belongs to user {found.st_uid}, who could exchange the volumes in it: "
                f"take a folder of user {os.geteuid()}, who runs the node"
            )
        if found.st_mode & _others(found) and not found.st_mode & stat.S_ISVTX:
            return f"{each} can be written by other users, who could exchange the volumes in it: chmod go-w {each}"
    return ""


def _others(found: os.stat_result) -> int:
    """The rights to write of all but root, our user, and the groups that are theirs."""
    return stat.S_IWOTH if found.st_gid in (0, os.getegid()) else stat.S_IWOTH | stat.S_IWGRP


def _upward(folder: Path) -> Iterator[Path]:
    """The folder and all above it, as it is written and as links lead to it."""
    for path in dict.fromkeys((folder.absolute(), Path(os.path.realpath(folder)))):
        yield path
        yield from path.parents
