"""Volumes that are directories, as large as their disk. Their size is reported, not enforced."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pilothouse.node.files.directory_handles import make_directory, set_mode
from pilothouse.node.files.directory_usage import measure_disk_usage
from pilothouse.node.volumes.removal import remove
from pilothouse.node.volumes.volume_backend import VolumeBackendError, amount_text, free_bytes
from pilothouse.node.volumes.volume_places import VolumePlaces


class DirectoryBackend:
    """``pilothouse.io/directory``: a ``VolumeBackend``."""

    inner: Final = "data"

    def __init__(self, places: VolumePlaces = VolumePlaces()) -> None:
        self._places = places

    def obstacle(self) -> str:
        return ""

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        self._make(folder)
        return ""

    def _make(self, folder: Path) -> None:
        inner = folder / self.inner
        try:
            # Closed to other users of the machine: files of pods may be set-user-id.
            make_directory(folder, 0o700, own=True)
            # All users of the pod may write, as in an emptyDir.
            make_directory(inner, 0o777)
        except OSError as problem:
            why = f"{problem.filename or inner}: {problem.strerror}"
            raise VolumeBackendError(why, elsewhere=True) from None

    async def mount(self, folder: Path) -> Path:
        folder = self._places.data(folder)
        inner = folder / self.inner
        try:
            set_mode(folder, 0o700, own=True)
        except FileNotFoundError:
            raise VolumeBackendError(f"its directory {inner} does not exist on this node") from None
        except OSError as problem:
            raise VolumeBackendError(f"{folder}: {problem.strerror}") from None
        if inner.is_symlink() or not inner.is_dir():
            raise VolumeBackendError(f"its directory {inner} does not exist on this node")
        return inner

    async def expand(self, folder: Path, size: int) -> None:
        await self.mount(folder)

    async def allocate(self, folder: Path, allocation: str) -> None:
        raise VolumeBackendError("a directory takes what is written: only loop volumes have an allocation")

    def allocation(self, folder: Path) -> str:
        return ""

    async def unmount(self, folder: Path) -> None:
        return

    async def make_copy(self, folder: Path, target: Path, allocation: str) -> None:
        used = (await asyncio.to_thread(measure_disk_usage, await self.mount(folder))).size
        copied = (await asyncio.to_thread(measure_disk_usage, target / self.inner)).size
        if used - copied > (free := free_bytes(target)):
            room = f"{target.parent}, which has {amount_text(free)} left"
            raise VolumeBackendError(f"there is not enough space for {amount_text(used)} in {room}")
        self._make(target)

    async def mount_copy(self, target: Path) -> Path:
        return target / self.inner

    async def unmount_copy(self, target: Path) -> None:
        return

    async def remove_data(self, folder: Path) -> None:
        await asyncio.to_thread(remove, folder / self.inner)

    def moves_online(self, folder: Path) -> bool:
        return False

    async def move_online(self, folder: Path, target: Path) -> float:
        raise VolumeBackendError("a directory is copied, not moved online")

    async def cancel_online(self, folder: Path) -> None:
        return

    async def is_attached(self, folder: Path) -> bool:
        return False

    def device(self, folder: Path) -> str:
        return ""
