"""Volume backends that keep within the sizes of their tiers (``storage_pools``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pilothouse.node.volumes.directory_backend import DirectoryBackend
from pilothouse.node.volumes.loop_backend import LoopBackend
from pilothouse.node.volumes.storage_pools import StoragePools, volume_size
from pilothouse.node.volumes.volume_backend import read_record
from pilothouse.node.volumes.volume_places import VolumePlaces


class PooledDirectories(DirectoryBackend):
    def __init__(self, pools: StoragePools, places: VolumePlaces = VolumePlaces()) -> None:
        super().__init__(places)
        self._pools = pools

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        async with self._pools.reserved(folder, size):
            return await super().make(folder, size, parameters)

    async def expand(self, folder: Path, size: int) -> None:
        async with self._pools.reserved(self._places.data(folder), size):
            await super().expand(folder, size)
            await self._pools.record_size(folder, size)

    async def make_copy(self, folder: Path, target: Path, allocation: str) -> None:
        record = read_record(folder)
        async with self._pools.reserved(target, record.size if record is not None else 0):
            await super().make_copy(folder, target, allocation)

    async def remove_data(self, folder: Path) -> None:
        await super().remove_data(folder)
        self._pools.release(folder)


class PooledLoops(LoopBackend):
    def __init__(self, pools: StoragePools, places: VolumePlaces = VolumePlaces(), *, root: bool) -> None:
        super().__init__(root=root, places=places)
        self._pools = pools

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        async with self._pools.reserved(folder, size):
            return await super().make(folder, size, parameters)

    async def expand(self, folder: Path, size: int) -> None:
        async with self._pools.reserved(self._places.data(folder), size):
            await super().expand(folder, size)
            await self._pools.record_size(folder, size)

    async def make_copy(self, folder: Path, target: Path, allocation: str) -> None:
        async with self._pools.reserved(target, volume_size(self._places.data(folder))):
            await super().make_copy(folder, target, allocation)

    async def remove_data(self, folder: Path) -> None:
        await super().remove_data(folder)
        self._pools.release(folder)
