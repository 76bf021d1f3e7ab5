"""Volume backends that keep within the sizes of their tiers (``storage_pools``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pilothouse.node.volumes.directory_backend import DirectoryBackend
from pilothouse.node.volumes.loop_backend import LoopBackend
from pilothouse.node.volumes.storage_pools import StoragePools


class PooledDirectories(DirectoryBackend):
    def __init__(self, pools: StoragePools) -> None:
        self._pools = pools

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        async with self._pools.reserved(folder, size):
            return await super().make(folder, size, parameters)

    async def expand(self, folder: Path, size: int) -> None:
        async with self._pools.reserved(folder, size):
            await super().expand(folder, size)
            await self._pools.record_size(folder, size)


class PooledLoops(LoopBackend):
    def __init__(self, pools: StoragePools, *, root: bool) -> None:
        super().__init__(root=root)
        self._pools = pools

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        async with self._pools.reserved(folder, size):
            return await super().make(folder, size, parameters)

    async def expand(self, folder: Path, size: int) -> None:
        async with self._pools.reserved(folder, size):
            await super().expand(folder, size)
            await self._pools.record_size(folder, size)
