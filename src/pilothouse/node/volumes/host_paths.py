"""Files and folders of the machine, as ``hostPath`` names them.

    checked({"path": "/var/log", "type": "Directory"}, "logs", private)      # Path("/var/log"), or VolumeNotReady

Nothing is made unless the type asks for it. What is the node's own is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pilothouse.api.objects import Tree
from pilothouse.node.parts import VolumeNotReady
from pilothouse.node.volumes.private_folders import PrivateFolders

_TYPES: Final[dict[str, tuple[str, Callable[[int], bool]]]] = {
    "": ("anything", lambda mode: True),
    "Directory": ("a directory", stat.S_ISDIR),
    "DirectoryOrCreate": ("a directory", stat.S_ISDIR),
    "File": ("a file", stat.S_ISREG),
    "FileOrCreate": ("a file", stat.S_ISREG),
    "Socket": ("a socket", stat.S_ISSOCK),
    "CharDevice": ("a character device", stat.S_ISCHR),
    "BlockDevice": ("a block device", stat.S_ISBLK),
}


def checked(source: Tree, volume: str, private: PrivateFolders) -> Path:
    """The path, if it is of the type that is asked for. Raises VolumeNotReady."""
    path, kind = Path(source["path"]), source.get("type") or ""
    if private.hold(path):
        raise VolumeNotReady(
            "FailedMount",
            f'volume "{volume}": {path} is in a folder of the node itself, which no pod sees; name another path',
        )
    try:
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True, mode=0o755)
        elif kind == "FileOrCreate" and not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        mode = path.stat().st_mode
    except FileNotFoundError:
        hint = "; with type: DirectoryOrCreate the node would make it" if kind in ("", "Directory") else ""
        raise _failed(volume, f"{path} is not on this node{hint}") from None
    except OSError as problem:
        raise _failed(volume, f"{problem.filename or path}: {problem.strerror}") from None
    words, fits = _TYPES.get(kind, (kind, lambda mode: False))
    if not fits(mode):
        raise _failed(volume, f"{path} is not {words}, which type: {kind} asks for")
    return path


def _failed(volume: str, message: str) -> VolumeNotReady:
    return VolumeNotReady("FailedMount", f'volume "{volume}": hostPath type check failed: {message}')
