"""How volumes that outlive pods are kept on a node.

    TIER/pvc-1234/volume.json       what it is: written last, so that a volume with this file is whole
    TIER/pvc-1234/owner.json        whose it is (``volume_owners``)
    TIER/pvc-1234/data/             of a directory volume: the files
    TIER/pvc-1234/disk, mount/      of a loop volume: the file with its filesystem, and where that is mounted

A tier is a folder of the machine, on whatever disk it likes. The volume's path, in the PersistentVolume's ``spec.local.path``, is all that
is needed to find everything else, and is only believed if it lies in one of this node's tiers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pilothouse.node.files.directory_handles import open_directory

_RECORD: Final = "volume.json"


class VolumeBackendError(Exception):
    """A volume that can't be made, mounted or grown; the message says what would help."""

    def __init__(self, message: str, *, elsewhere: bool = False) -> None:
        """``elsewhere``: another node may be able to."""
        super().__init__(message)
        self.elsewhere = elsewhere


class VolumeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a volume is."""

    name: str
    provisioner: str
    claim: str
    """The uid of the claim for which it was made."""
    size: int
    filesystem: str = ""


class VolumeBackend(Protocol):
    """One way to keep volumes."""

    @property
    def inner(self) -> str:
        """The name of the folder, in a volume's own, that pods see."""
        ...

    def obstacle(self) -> str:
        """Why this node can keep no such volumes at all; empty if it can."""
        ...

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        """Have what the volume needs in its folder; returns the filesystem's name. What an earlier try left is used or replaced. Raises VolumeBackendError."""
        ...

    async def bring(self, folder: Path) -> Path:
        """Have it mounted; the path that pods see. Raises VolumeBackendError."""
        ...

    async def grow(self, folder: Path, size: int) -> None:
        """Have it hold so many bytes, at least. Raises VolumeBackendError."""
        ...

    async def put_away(self, folder: Path) -> None:
        """No pod uses it any more. Raises VolumeBackendError."""
        ...

    def device(self, folder: Path) -> str:
        """``major:minor`` of the block device that is the volume's alone; empty if there is none."""
        ...


def read_record(folder: Path) -> VolumeRecord | None:
    """None if the volume is not whole, or not there. What another user has put there is no volume. Raises VolumeBackendError."""
    try:
        with open_directory(folder) as handle:
            owner = os.fstat(handle).st_uid
        if owner != os.geteuid():
            raise VolumeBackendError(
                f"{folder} was made by user {owner}, not by the node: remove it", elsewhere=True
            )
        return msgspec.json.decode((folder / _RECORD).read_bytes(), type=VolumeRecord)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as problem:
        raise VolumeBackendError(f"{folder / _RECORD} can't be read: {problem}") from None


def write_record(folder: Path, record: VolumeRecord) -> None:
    """Raises OSError."""
    draft = folder / f"{_RECORD}.draft"
    with draft.open("wb") as out:
        out.write(msgspec.json.encode(record))
        out.flush()
        os.fsync(out.fileno())
    draft.rename(folder / _RECORD)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def folder_of(path: str, tiers: Mapping[str, Path]) -> Path | None:
    """The folder of the volume with this path, if it is one of ours."""
    folder = Path(path).parent
    return folder if folder.parent in tiers.values() and ".." not in Path(path).parts else None


def outside_tiers(path: str, tiers: Mapping[str, Path]) -> str:
    """Why a volume of ours with this path can't be used."""
    known = ", ".join(str(tier) for tier in tiers.values())
    return (
        f"its path {path} is in none of this node's tiers ({known}): it was made by a node with another data folder, or "
        "with a --tier that this one was not started with; a control plane that takes another's place is restored to the same data folder"
    )


def free_bytes(folder: Path) -> int:
    """What a filesystem has left for us."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def amount_text(size: int) -> str:
    """Bytes as people write them: in the largest unit of which there is one at least, rounded down to a tenth."""
    for unit, name in ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if size >= unit:
            return f"{size * 10 // unit / 10:g}{name}"
    return str(size)
