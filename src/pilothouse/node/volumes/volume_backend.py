"""The interface of volume backends: how persistent volumes are stored on a node.

    TIER/pvc-1234/volume.json       its record, written last: a volume with this file is complete
    TIER/pvc-1234/owner.json        its owner (``volume_owners``)
    TIER/pvc-1234/data/             of a directory volume: the files
    TIER/pvc-1234/disk, mount/      of a loop volume: the file with its filesystem, and where that is mounted
    TIER/pvc-1234/move.json         while it is moved to another tier (``move_journal``)

A tier is a directory of the machine. The path in ``spec.local.path`` of a PersistentVolume leads to
everything else, and is trusted only within this node's tiers. It never changes: the data of a volume that was
moved is in a directory of the same name in another tier, which the record names.
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
    """A volume can't be made, mounted or expanded; the message says what to do."""

    def __init__(self, message: str, *, elsewhere: bool = False) -> None:
        """``elsewhere``: another node may be able to."""
        super().__init__(message)
        self.elsewhere = elsewhere


class VolumeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    provisioner: str
    claim: str
    """The uid of the claim that it was made for."""
    size: int
    filesystem: str = ""
    tier: str = ""
    """The tier that its data was moved to; empty: the data is beside this record."""


class VolumeBackend(Protocol):
    @property
    def inner(self) -> str:
        """The name of the subdirectory that pods see."""

    def obstacle(self) -> str:
        """Why this node can have no such volumes; empty if it can."""

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        """Create the volume in its directory; returns the filesystem's name. Remains of an earlier attempt
        are used or replaced. Raises VolumeBackendError."""

    async def mount(self, folder: Path) -> Path:
        """Mount it; returns the path that pods see. Raises VolumeBackendError."""

    async def expand(self, folder: Path, size: int) -> None:
        """Expand it to at least this size in bytes. Raises VolumeBackendError."""

    async def allocate(self, folder: Path, allocation: str) -> None:
        """Reserve the whole size of a mounted volume on the disk, or return what is unused (``reserved``,
        ``sparse``). Raises VolumeBackendError."""

    def allocation(self, folder: Path) -> str:
        """``reserved`` or ``sparse``; empty for a volume that is neither."""

    async def unmount(self, folder: Path) -> None:
        """Unmount it, when no pod uses it. Raises VolumeBackendError."""

    async def make_copy(self, folder: Path, target: Path, allocation: str) -> None:
        """Make an empty copy of a volume in a directory of another tier, or expand one that is smaller than
        the volume. Raises VolumeBackendError."""

    async def mount_copy(self, target: Path) -> Path:
        """Mount a copy, for the node alone. Raises VolumeBackendError."""

    async def unmount_copy(self, target: Path) -> None:
        """Raises VolumeBackendError."""

    async def remove_data(self, folder: Path) -> None:
        """Remove the data in a directory, of which nothing is mounted any more, but no records. Raises
        VolumeBackendError, OSError."""

    def moves_online(self, folder: Path) -> bool:
        """Whether ``move_online`` moves it while pods use it."""

    async def move_online(self, folder: Path, target: Path) -> float:
        """Begin to move the data to another directory, or go on; returns how many percent are moved. Raises
        VolumeBackendError."""

    async def cancel_online(self, folder: Path) -> None:
        """Cancel what ``move_online`` has begun. Raises VolumeBackendError."""

    async def is_attached(self, folder: Path) -> bool:
        """Whether a process still has the volume mounted, in any namespace, though it is unmounted here."""

    def device(self, folder: Path) -> str:
        """``major:minor`` of the volume's own block device; empty if there is none."""


def read_record(folder: Path) -> VolumeRecord | None:
    """The record; None if the volume is incomplete. Raises VolumeBackendError."""
    try:
        with open_directory(folder) as handle:
            owner = os.fstat(handle).st_uid
        if owner != os.geteuid():
            why = f"{folder} was made by user {owner}, not by the node: remove it"
            raise VolumeBackendError(why, elsewhere=True)
        return msgspec.json.decode((folder / _RECORD).read_bytes(), type=VolumeRecord)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as problem:
        raise VolumeBackendError(f"{folder / _RECORD} can't be read: {problem}") from None


def write_record(folder: Path, record: VolumeRecord) -> None:
    """Raises OSError."""
    write_durably(folder, _RECORD, msgspec.json.encode(record))


def write_durably(folder: Path, name: str, content: bytes) -> None:
    """Replace a file atomically; on return it is on the disk. Raises OSError."""
    draft = folder / f"{name}.draft"
    with draft.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    draft.rename(folder / name)
    sync_directory(folder)


def sync_directory(folder: Path) -> None:
    with open_directory(folder) as handle:
        os.fsync(handle)


def folder_of(path: str, tiers: Mapping[str, Path]) -> Path | None:
    """The directory of the volume with this path; None if it is in none of the tiers."""
    folder = Path(path).parent
    return folder if folder.parent in tiers.values() and ".." not in Path(path).parts else None


def outside_tiers(path: str, tiers: Mapping[str, Path]) -> str:
    """The error for a volume of ours whose path is in none of the tiers."""
    known = ", ".join(str(tier) for tier in tiers.values())
    return (
        f"its path {path} is in none of this node's tiers ({known}): it was made by a node with another data "
        "folder, or with a --tier that this one was not started with; a control plane that takes another's "
        "place is restored to the same data folder"
    )


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def amount_text(size: int) -> str:
    """A size in the largest unit of which there is at least one, rounded down to a tenth."""
    for unit, name in ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if size >= unit:
            return f"{size * 10 // unit / 10:g}{name}"
    return str(size)
