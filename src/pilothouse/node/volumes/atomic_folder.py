"""A folder whose files change all at once.

    replace(folder, {"app.conf": File(b"…", 0o644), "tls/ca.crt": File(b"…", 0o600)}, Owner(None, None), stamp)

    folder/app.conf     -> ..data/app.conf
    folder/tls          -> ..data/tls
    folder/..data       -> ..2026_11_15_10_00_00.1
    folder/..2026_11_15_10_00_00.1/app.conf, tls/ca.crt

As in kubelet: files are written into a folder of their own, and the link ``..data`` is exchanged in one step. A reader thus has all old
files or all new ones, and whoever watches sees one event. A crash leaves a folder that nothing leads to; the next exchange takes it away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from pilothouse.node.volumes.payloads import File

DATA: Final = "..data"
_NEXT: Final = "..data_next"


class Owner(msgspec.Struct, frozen=True):
    """To whom files are given; None leaves it to who writes them."""

    uid: int | None = None
    """Of secret files alone: the one user that the pod runs as."""
    gid: int | None = None
    """The pod's ``fsGroup``."""


def replace(folder: Path, files: Mapping[str, File], owner: Owner, stamp: str) -> bool:
    """Have these files and no others; False if they were there already. ``stamp`` names this exchange, unlike any before."""
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / DATA
    wanted = {path: (file.content, _mode(file, owner)) for path, file in files.items()}
    names = {PurePosixPath(path).parts[0] for path in files}
    if current.is_symlink() and wanted == _present(current):
        _link(folder, names)  # Whoever exchanged them may not have come this far.
        return False
    fresh = folder / f"..{stamp}"
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.mkdir(mode=0o755)
    fresh.chmod(0o755)
    for path, file in files.items():
        _write(fresh, path, file, owner)
    following = folder / _NEXT
    following.unlink(missing_ok=True)
    following.symlink_to(fresh.name)
    following.rename(current)
    _link(folder, names)
    for left in folder.glob("..*"):
        if left.name not in (DATA, fresh.name):
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    return True


def _present(current: Path) -> dict[str, tuple[bytes, int]]:
    root = current.resolve()
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in root.rglob("*")
        if path.is_file()
    }


def _write(root: Path, path: str, file: File, owner: Owner) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(file.content)
        uid = owner.uid if file.secret else None
        if uid is not None or owner.gid is not None:
            os.fchown(handle, -1 if uid is None else uid, -1 if owner.gid is None else owner.gid)
        os.fchmod(handle, _mode(file, owner))


def _mode(file: File, owner: Owner) -> int:
    """As kubelet has it: a token is its user's alone where that is one; files of a group can be read by it."""
    mode = file.mode
    if (file.secret and owner.uid is not None) or (file.secret and owner.gid is not None):
        mode = 0o600
    return mode | 0o440 if owner.gid is not None else mode


def _link(folder: Path, names: set[str]) -> None:
    """Links for what is there, and none for what is not."""
    for name in names:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{DATA}/{name}")
    for left in folder.iterdir():
        if not left.name.startswith("..") and left.name not in names:
            left.unlink()
