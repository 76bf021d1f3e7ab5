"""Orphaned volumes: directories of an agent that was killed before it created the PersistentVolume.

    for folder in leftovers(found, claims, volumes): ...

Once a directory has a PersistentVolume it is marked, and removed only with it, or never (``Retain``). One
without the mark, a PersistentVolume or its claim has never been used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

_MARK: Final = "announced"
_PREFIX: Final = "pvc-"


def folders(tiers: Iterable[Path]) -> Iterator[Path]:
    """Our directories of volumes, complete or not. Other users may have made some too."""
    for tier in tiers:
        if tier.is_dir():
            yield from (one for one in tier.iterdir() if one.name.startswith(_PREFIX) and _is_own(one))


def _is_own(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def mark(folder: Path) -> None:
    """Mark that the volume of this directory has a PersistentVolume."""
    (folder / _MARK).touch()


def is_marked(folder: Path) -> bool:
    return (folder / _MARK).exists()


def leftovers(found: Iterable[Path], claims: Collection[str], volumes: Collection[str]) -> Iterator[Path]:
    """The orphans among the directories, given the uids of all claims and the names of all volumes."""
    for folder in found:
        known = folder.name in volumes or folder.name.removeprefix(_PREFIX) in claims
        if not known and not is_marked(folder):
            yield folder
