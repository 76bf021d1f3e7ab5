"""Volumes that are directories, as large as their disk. Their size is reported, not enforced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pilothouse.node.files.directory_handles import make_directory, set_mode
from pilothouse.node.volumes.volume_backend import VolumeBackendError


class DirectoryBackend:
    """``pilothouse.io/directory``: a ``VolumeBackend``."""

    inner: Final = "data"

    def obstacle(self) -> str:
        return ""

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        inner = folder / self.inner
        try:
            # Closed to other users of the machine: files of pods may be set-user-id.
            make_directory(folder, 0o700, own=True)
            # All users of the pod may write, as in an emptyDir.
            make_directory(inner, 0o777)
        except OSError as problem:
            why = f"{problem.filename or inner}: {problem.strerror}"
            raise VolumeBackendError(why, elsewhere=True) from None
        return ""

    async def mount(self, folder: Path) -> Path:
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

    async def unmount(self, folder: Path) -> None:
        return

    def device(self, folder: Path) -> str:
        return ""
