"""Paths of the machine that every container sees read-only, as ``--expose-path`` names them.

    checked_paths((Path("/opt/java"),), private=(Path("/var/lib/pilothouse"),))       # or StartError

Refused are folders that every container has of its own (`/tmp`, `/proc`), the machine's devices and sockets,
and the node's own folders: a pod that needs those uses a ``hostPath``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pilothouse.app.options import StartError

_OWN: Final = ("/", "/etc", "/home", "/root", "/tmp", "/var")
"""Every container has its own; parts of them may be shown."""
_NEVER: Final = ("/dev", "/proc", "/run", "/sys", "/var/run")


def checked_paths(paths: Iterable[Path], private: Iterable[Path]) -> tuple[Path, ...]:
    """The paths, if every container may see them. Raises ``StartError``."""
    found = []
    secret = [os.path.realpath(each) for each in private]
    for path in paths:
        if problem := _problem(path, secret):
            raise StartError(f"--expose-path {path}: {problem}")
        found.append(Path(os.path.normpath(path)))
    return tuple(found)


def _problem(path: Path, private: list[str]) -> str:
    if not path.is_absolute():
        return "the path must be absolute"
    if not path.exists():
        return "no such file or folder"
    for each in {os.path.normpath(path), os.path.realpath(path)}:
        if each in _OWN:
            return "every container has its own; name a path below it"
        if any(_is_in(each, never) for never in _NEVER):
            return "these are never shown to all containers; use a hostPath volume in the pod that needs it"
        if any(_is_in(each, own) or _is_in(own, each) for own in private):
            return "it would show the node's own folders"
    return ""


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
