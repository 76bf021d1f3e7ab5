"""``hostPath`` volumes: files and directories of the machine.

    checked({"path": "/var/log", "type": "Directory"}, "logs", private)      # Path("/var/log"), or VolumeNotReady

What is the node's own is refused. Nothing is made unless the type asks for it. What is made is made by handles, from the root down: a link on
the way counts only if nobody but root and the agent's own user can have put it there. Else a pod that has a
folder on that way mounted could choose where in the machine the node makes something.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pilothouse.api.objects import Tree
from pilothouse.node.files.directory_handles import ANY, DIRECTORY
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes.private_directories import PrivateDirectories

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
_MOST_LINKS: Final = 40
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def checked(source: Tree, volume: str, private: PrivateDirectories) -> Path:
    """The path, if it is of the type that is asked for. Raises VolumeNotReady."""
    path, kind = Path(source["path"]), source.get("type") or ""
    try:
        held = private.hold(path)
    except OSError as problem:
        # A link on the way was exchanged while it was read.
        raise _failed(volume, f"{problem.filename or path}: {problem.strerror}") from None
    if held:
        raise VolumeNotReady(
            "FailedMount",
            f'volume "{volume}": {path} is in a folder of the node itself, which no pod may see; name another path',
        )
    try:
        if kind in ("DirectoryOrCreate", "FileOrCreate") and not path.exists():
            _make(path, is_file=kind == "FileOrCreate")
        mode = path.stat().st_mode
    except FileNotFoundError:
        hint = "; with type: DirectoryOrCreate the node creates it" if kind in ("", "Directory") else ""
        raise _failed(volume, f"{path} is not on this node{hint}") from None
    except OSError as problem:
        raise _failed(volume, f"{problem.filename or path}: {problem.strerror}") from None
    words, fits = _TYPES.get(kind, (kind, lambda mode: False))
    if not fits(mode):
        raise _failed(volume, f"{path} is not {words}, which type: {kind} asks for")
    return path


def _make(path: Path, *, is_file: bool) -> None:
    """Have something at a path: folders that are missing on the way to a folder, or a file in a folder that
    is there. Raises OSError.
    """
    names, links, done = deque(path.parts[1:]), 0, "/"
    folder = os.open("/", DIRECTORY)
    try:
        while names:
            name = names.popleft()
            done = os.path.join(done, name)
            try:
                handle = os.open(name, ANY, dir_fd=folder)
            except FileNotFoundError:
                if is_file:
                    if names:
                        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), done) from None
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                    handle = os.open(name, flags, 0o644, dir_fd=folder)
                else:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=folder)
                    handle = os.open(name, DIRECTORY, dir_fd=folder)
            found = os.fstat(handle)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                try:
                    target = os.readlink("", dir_fd=handle)
                finally:
                    os.close(handle)
                _check_link(done, os.fstat(folder), found, links)
                names.extendleft(reversed([part for part in target.split("/") if part not in ("", ".")]))
                if target.startswith("/"):
                    os.close(folder)
                    folder, done = os.open("/", DIRECTORY), "/"
                else:
                    done = os.path.dirname(done)
            elif not names:
                os.close(handle)
            else:
                os.close(folder)
                folder = handle
                if not stat.S_ISDIR(found.st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), done)
    finally:
        os.close(folder)


def _check_link(path: str, folder: os.stat_result, link: os.stat_result, links: int) -> None:
    if links > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    trusted = (0, os.geteuid())
    if link.st_uid not in trusted or folder.st_uid not in trusted or folder.st_mode & _WRITABLE_BY_OTHERS:
        raise OSError(
            errno.ELOOP,
            "is a link that users other than root could have created: name the folder that it leads to",
            path,
        )


def _failed(volume: str, message: str) -> VolumeNotReady:
    return VolumeNotReady("FailedMount", f'volume "{volume}": hostPath type check failed: {message}')
