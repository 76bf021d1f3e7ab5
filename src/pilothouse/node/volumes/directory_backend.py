"""Volumes that are folders: there at once, as large as the disk that they are on. Their size is reported, and not enforced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pilothouse.node.files.directory_handles import make_directory, set_mode
from pilothouse.node.volumes.volume_backend import VolumeBackendError


class DirectoryBackend:
    """``pilothouse.io/directory``: a ``Keeper``."""

    inner: Final = "data"

    def obstacle(self) -> str:
        return ""

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        inner = folder / self.inner
        try:
            _make(inner)
        except OSError as problem:
            raise VolumeBackendError(
                f"{problem.filename or inner}: {problem.strerror}", elsewhere=True
            ) from None
        return ""

    async def bring(self, folder: Path) -> Path:
        inner = folder / self.inner
        try:
            set_mode(folder, 0o700, own=True)
        except FileNotFoundError:
            raise VolumeBackendError(f"{inner}, where its files were, is gone from this node") from None
        except OSError as problem:
            raise VolumeBackendError(f"{folder}: {problem.strerror}") from None
        if inner.is_symlink() or not inner.is_dir():
            raise VolumeBackendError(f"{inner}, where its files were, is gone from this node")
        return inner

    async def grow(self, folder: Path, size: int) -> None:
        await self.bring(folder)

    async def put_away(self, folder: Path) -> None:
        return

    def device(self, folder: Path) -> str:
        return ""


def _make(inner: Path) -> None:
    # Closed to all others on the machine: a pod's files belong to real users there, and may be set-user-id.
    make_directory(inner.parent, 0o700, own=True)
    # Whoever runs in the pod may write, as in an emptyDir; what is in it is for those alone who have it mounted.
    make_directory(inner, 0o777)
