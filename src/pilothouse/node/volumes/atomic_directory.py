"""A directory whose files are replaced atomically, all at once, as kubelet does.

    replace(folder, {"app.conf": ProjectedFile(b"…", 0o644)}, FileOwner(None, None), stamp)

    folder/app.conf     -> ..data/app.conf
    folder/tls          -> ..data/tls
    folder/..data       -> ..2026_11_15_10_00_00.1
    folder/..2026_11_15_10_00_00.1/app.conf, tls/ca.crt

Files are written into a new directory, and the link ``..data`` is renamed over in one step: readers have all
old files or all new ones, and watchers see one event. The next exchange removes what a crash left.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from pilothouse.node.files.directory_handles import (
    DIRECTORY,
    closing_handle,
    make_directories,
    open_directory,
    open_regular_beneath,
    opened_beneath,
    remove_tree,
    walk,
)
from pilothouse.node.volumes.projected_files import ProjectedFile

DATA: Final = "..data"
_NEXT: Final = "..data_next"


class FileOwner(msgspec.Struct, frozen=True):
    """The owner of files; None leaves them to the agent."""

    uid: int | None = None
    """Only of secret files: the single user that the pod runs as."""
    gid: int | None = None
    """The pod's ``fsGroup``."""


def replace(folder: Path, files: Mapping[str, ProjectedFile], owner: FileOwner, stamp: str) -> bool:
    """Replace all files; False if they were the same. ``stamp`` names this exchange, and must be unique."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_directory(folder) as top:
        names = {PurePosixPath(path).parts[0] for path in files}
        if _is_present(top, files, owner):
            _link(top, names)  # An earlier exchange may have been interrupted before this.
            return False
        fresh = f"..{stamp}"
        remove_tree(top, fresh)
        os.mkdir(fresh, 0o755, dir_fd=top)
        with opened_beneath(top, fresh, DIRECTORY) as root:
            os.fchmod(root, 0o755)
            for path, file in files.items():
                _write(root, path, file, owner)
        remove_tree(top, _NEXT)
        os.symlink(fresh, _NEXT, dir_fd=top)
        os.rename(_NEXT, DATA, src_dir_fd=top, dst_dir_fd=top)
        _link(top, names)
        for left in os.listdir(top):
            if left.startswith("..") and left not in (DATA, fresh):
                remove_tree(top, left)
    return True


def _is_present(top: int, files: Mapping[str, ProjectedFile], owner: FileOwner) -> bool:
    try:
        with opened_beneath(top, os.readlink(DATA, dir_fd=top), DIRECTORY) as root:
            if sum(not entry.is_directory for entry in walk(root)) != len(files):
                return False
            return all(_is_same(root, path, file, owner) for path, file in files.items())
    except OSError:
        return False  # There is nothing yet, or something that is not ours.


def _is_same(root: int, path: str, file: ProjectedFile, owner: FileOwner) -> bool:
    with open_regular_beneath(root, path) as found:
        mode = stat.S_IMODE(os.fstat(found.fileno()).st_mode)
        return mode == _mode(file, owner) and found.read(len(file.content) + 1) == file.content


def _write(root: int, path: str, file: ProjectedFile, owner: FileOwner) -> None:
    *above, name = PurePosixPath(path).parts
    with closing_handle(make_directories(root, above)) as folder:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(handle, "wb") as out:
        out.write(file.content)
        uid = owner.uid if file.secret else None
        if uid is not None or owner.gid is not None:
            os.fchown(handle, -1 if uid is None else uid, -1 if owner.gid is None else owner.gid)
        os.fchmod(handle, _mode(file, owner))


def _mode(file: ProjectedFile, owner: FileOwner) -> int:
    """As kubelet: a token is readable only by the pod's single user or group; a group can read all files."""
    mode = file.mode
    if file.secret and (owner.uid is not None or owner.gid is not None):
        mode = 0o600
    return mode | 0o440 if owner.gid is not None else mode


def _link(top: int, names: set[str]) -> None:
    """Make the links of ``names``, and remove all others."""
    for name in os.listdir(top):
        if not name.startswith("..") and (name not in names or not _leads_to_data(top, name)):
            remove_tree(top, name)
    for name in names - set(os.listdir(top)):
        os.symlink(f"{DATA}/{name}", name, dir_fd=top)


def _leads_to_data(top: int, name: str) -> bool:
    try:
        return os.readlink(name, dir_fd=top) == f"{DATA}/{name}"
    except OSError:
        return False
