"""This installation, as a container's user may need it: pods of databases start ``pilothouse pilot``.

    mounts(installation(), User(uid=1000, gid=1000))
    # (Mount("closed", "/root", kind="tmpfs", read_only=True),
    #  Mount("/root/.pyenv/versions/3.11.7", "/root/.pyenv/versions/3.11.7", read_only=True), …)

An interpreter, a virtual environment or a source folder may be where only the agent may go, such as below ``/root``. They can't be shown
elsewhere, since they know their own paths. So in the container's view the folder that is closed to its user is covered by an empty one
that is open, and in that is what belongs to the installation, and nothing else. The user sees nothing of the machine that it didn't see before. Where
everything is open, as below ``/usr``, nothing is done; nor for containers that run as the agent itself.

Symbolic links on the way count too: the interpreter of a virtual environment is one.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pilothouse
from pilothouse.supervise.launching import Mount, User


def installation() -> tuple[str, ...]:
    """What has to be there for this very program to run."""
    return (sys.prefix, sys.base_prefix, str(Path(pilothouse.__file__).parent), sys.executable)


def mounts(paths: Iterable[str], user: User | None) -> tuple[Mount, ...]:
    """By which a user reaches paths that are in folders it may not enter. ``None`` is the agent itself."""
    if user is None or user.uid == 0:
        return ()
    covers: dict[str, Mount] = {}
    shown: dict[str, Mount] = {}
    for way in sorted({way for path in paths for way in ways(path)}):
        closed = _closed_above(way, user)
        if not closed or any(way == other or way.startswith(other + "/") for other in shown):
            continue
        covers[closed] = Mount("closed", closed, kind="tmpfs", read_only=True)
        source = os.path.realpath(way)
        shown[way] = Mount(source, way, read_only=True, is_file=not os.path.isdir(source))
    return (*covers.values(), *shown.values())


def ways(path: str) -> Iterator[str]:
    """Every symbolic link that leads to a path, and where it leads in the end; none of them through another link."""
    done, rest = "/", _names(path)
    while rest:
        name = rest.pop(0)
        if name == "..":
            done = os.path.dirname(done)
            continue
        here = os.path.join(done, name)
        if os.path.islink(here):
            yield here
            target = os.readlink(here)
            done, rest = "/" if target.startswith("/") else done, _names(target) + rest
        else:
            done = here
    yield done


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _closed_above(path: str, user: User) -> str:
    """The first folder on the way to a path that a user may not enter; empty if it may enter all of them."""
    for folder in reversed(Path(path).parents):
        if not _may_enter(folder, user):
            return str(folder)
    return ""


def _may_enter(folder: Path, user: User) -> bool:
    found = folder.stat()
    if found.st_uid == user.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid in (user.gid, *user.groups):
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)
