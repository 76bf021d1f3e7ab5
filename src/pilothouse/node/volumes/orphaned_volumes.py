"""Orphaned volumes: directories of an agent that was killed before it announced the volume.

    for folder in leftovers(found, claims, volumes): ...

Once the server has had a PersistentVolume for a folder, the folder is marked, and from then on goes only with it, or never (``Retain``). One without
the mark, without a PersistentVolume and without the claim that it was made for has never held anything of anybody's.
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
    """The folders of volumes, whole or not. Those of other users are none: others may be able to make folders there."""
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
    """The server knows of the volume in this folder."""
    (folder / _MARK).touch()


def is_marked(folder: Path) -> bool:
    return (folder / _MARK).exists()


def leftovers(found: Iterable[Path], claims: Collection[str], volumes: Collection[str]) -> Iterator[Path]:
    """Those folders that are nobody's, by the uids of all claims and the names of all volumes."""
    for folder in found:
        if (
            folder.name not in volumes
            and folder.name.removeprefix(_PREFIX) not in claims
            and not is_marked(folder)
        ):
            yield folder
