"""The storage pools of a node: its tiers, how much they hold, and what their volumes take of it.

    pools = StoragePools("m1", {"default": data / "volumes", "fast": ssd}, {"fast": 2 << 30}, data)
    async with pools.reserved(folder, 640 << 20): ...   # VolumeBackendError if the tier has no room for it
    await pools.grow("fast", 4 << 30)                   # GrowthRefused if its disk has no room
    for usage in await pools.measure(): ...

A tier without a size is as large as its disk. One with a size (``--tier fast=DIR,size=2Gi``) holds volumes
whose sizes together are at most that. It can grow and never shrinks: the grown size is kept in the node's
data directory, and the larger of that one and the flag's counts.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.node.files.directory_usage import measure_disk_usage
from pilothouse.node.files.walk_limits import Meter, WalkLimit
from pilothouse.node.volumes.orphaned_volumes import folders
from pilothouse.node.volumes.volume_backend import (
    VolumeBackendError,
    VolumeRecord,
    amount_text,
    free_bytes,
    read_record,
    write_record,
)

_KEPT: Final = "tier-sizes.json"
_DISK: Final = "disk"
"""The file of a loop volume in its directory."""
_COUNTED: Final = WalkLimit(depth=4096, entries=1_000_000, seconds=20.0)
_COUNTING: Final = 60.0
"""Seconds for which a count of a directory volume is valid."""

log = logging.getLogger(__name__)


class GrowthRefused(Exception):
    """A tier can't grow: a reason in one word, and a message that says what would help."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class PoolUsage(msgspec.Struct, frozen=True):
    """What a tier holds, in bytes."""

    tier: str
    folder: Path
    capacity: int
    provisioned: int
    """The sizes of its volumes, added up."""
    used: int
    available: int
    expandable: bool = False


class KeptSize(msgspec.Struct, frozen=True):
    folder: str
    size: int


class StoragePools:
    def __init__(self, node: str, tiers: Mapping[str, Path], sizes: Mapping[str, int], data: Path) -> None:
        """``sizes`` are those of the flags; tiers that are not in it are as large as their disks."""
        self.latest: list[PoolUsage] = []
        """As last measured."""
        self.changed = asyncio.Event()
        """Set after a volume was made or has grown."""
        self._node = node
        self._tiers = dict(tiers)
        self._kept_file = data / _KEPT
        self._sizes = {name: self._kept_or(name, size) for name, size in sizes.items()}
        self._lock = asyncio.Lock()
        """Held from the look at the room of a tier to the reservation."""
        self._reserved: dict[Path, int] = {}
        self._under_way: set[Path] = set()
        self._counts: dict[Path, tuple[float, int]] = {}
        self._threads = DaemonThreads("pools", 1)

    def name(self, tier: str) -> str:
        """The name of a tier's StoragePool."""
        return f"{self._node}-{tier}"

    def has(self, tier: str) -> bool:
        return tier in self._tiers

    def tier_of(self, volume_folder: Path) -> str:
        """The tier of a volume, by its directory; empty if it is in none."""
        return next((name for name, folder in self._tiers.items() if folder == volume_folder.parent), "")

    @asynccontextmanager
    async def reserved(self, folder: Path, size: int) -> AsyncIterator[None]:
        """Reserve room for the volume in a directory, which is made or grown meanwhile. Raises
        VolumeBackendError."""
        async with self._lock:
            await self._check_room(folder, size)
            self._reserved[folder] = size
            self._under_way.add(folder)
        try:
            yield
        except BaseException:
            self._reserved.pop(folder, None)
            raise
        finally:
            self._under_way.discard(folder)
            self.changed.set()

    def release(self, folder: Path) -> None:
        """Give up the room of data that is gone, though its directory stays for the records: it was moved."""
        self._reserved.pop(folder, None)
        self.changed.set()

    async def _check_room(self, folder: Path, size: int) -> None:
        tier = self.tier_of(folder)
        if not (capacity := self._sizes.get(tier, 0)):
            return
        others = await asyncio.to_thread(self._provisioned, tier, self._asked(), without=folder)
        if others + size > capacity:
            left = amount_text(max(0, capacity - others))
            what = f"the tier {tier}, which holds {amount_text(capacity)} and has {left} left"
            raise VolumeBackendError(
                f"there is not enough space for {amount_text(size)} in {what}: free some, request less, "
                f"or let it grow: spec.capacity of the storagepool {self.name(tier)}",
                elsewhere=True,
            )

    async def record_size(self, folder: Path, size: int) -> None:
        """Write the size of a volume that has grown to its record. Raises VolumeBackendError, OSError."""

        def write() -> None:
            record = read_record(folder)
            if record is not None and record.size < size:
                write_record(folder, msgspec.structs.replace(record, size=size))

        await asyncio.to_thread(write)

    async def grow(self, tier: str, size: int) -> None:
        """Let a tier hold this many bytes; it never shrinks. Raises GrowthRefused, OSError."""
        present = self._sizes.get(tier)
        if present is None:
            why = f"the tier {tier} is as large as its disk, and has no size that could be changed"
            raise GrowthRefused("NotExpandable", f"{why}: start the node with --tier {tier}=FOLDER,size=SIZE")
        if size <= present:
            return
        async with self._lock:
            lacking = await self._threads.run(lambda: self._lacking(tier, size))
            if lacking > 0:
                room = f"there is no room for {amount_text(size)} on the disk of {self._tiers[tier]}"
                raise GrowthRefused("NoRoom", f"{room}: {amount_text(lacking)} are missing; free some")
            await asyncio.to_thread(self._keep, tier, size)
            self._sizes[tier] = size
        log.info("the tier %s has grown from %s to %s", tier, amount_text(present), amount_text(size))

    async def measure(self) -> list[PoolUsage]:
        """Measure all tiers. What can't be measured is left out, and logged."""
        asked = self._asked()
        self.latest = await self._threads.run(lambda: self._measure(asked))
        return self.latest

    def _asked(self) -> dict[Path, int]:
        """The reservations, without those of volumes that are gone."""
        for folder in self._reserved.keys() - self._under_way:
            if not folder.exists():
                del self._reserved[folder]
        return dict(self._reserved)

    def _measure(self, asked: Mapping[Path, int]) -> list[PoolUsage]:
        found = []
        for tier in self._tiers:
            try:
                found.append(self._usage(tier, asked))
            except OSError as problem:
                log.warning("failed to measure the tier %s: %s", tier, problem)
        return found

    def _usage(self, tier: str, asked: Mapping[Path, int]) -> PoolUsage:
        folder, size = self._tiers[tier], self._sizes.get(tier)
        disk = os.statvfs(_existing(folder))
        provisioned, available = self._provisioned(tier, asked), disk.f_bavail * disk.f_frsize
        if size is None:
            capacity = disk.f_blocks * disk.f_frsize
            used = capacity - disk.f_bfree * disk.f_frsize
            return PoolUsage(tier, folder, capacity, provisioned, used, available)
        used = self._taken(tier)
        return PoolUsage(tier, folder, size, provisioned, used, max(0, min(available, size - used)), True)

    def _provisioned(self, tier: str, asked: Mapping[Path, int], without: Path | None = None) -> int:
        """The sizes of a tier's volumes, as their records, their files and reservations have them."""
        sizes = {each: volume_size(each) for each in folders([self._tiers[tier]])}
        for folder, size in chain(asked.items(), self._moved_here(tier)):
            if self.tier_of(folder) == tier:
                sizes[folder] = max(sizes.get(folder, 0), size)
        sizes.pop(without or self._tiers[tier], None)
        return sum(sizes.values())

    def _moved_here(self, tier: str) -> Iterator[tuple[Path, int]]:
        """The directories of volumes that were moved to a tier, with the sizes in their records at home."""
        for home in folders(folder for name, folder in self._tiers.items() if name != tier):
            record = _record(home)
            if record is not None and record.tier == tier:
                yield self._tiers[tier] / home.name, record.size

    def _taken(self, tier: str) -> int:
        """What a tier's volumes take on its disk."""
        found = list(folders([self._tiers[tier]]))
        for gone in [each for each in self._counts if self.tier_of(each) == tier and each not in found]:
            del self._counts[gone]
        return sum(map(self._taken_by, found))

    def _taken_by(self, folder: Path) -> int:
        try:
            return (folder / _DISK).stat().st_blocks * 512
        except FileNotFoundError:
            pass
        at, known = self._counts.get(folder, (-_COUNTING, 0))
        if time.monotonic() - at < _COUNTING:
            return known
        try:
            known = measure_disk_usage(folder, Meter(_COUNTED)).size
        except OSError as problem:
            if problem.errno != errno.ENOENT:
                log.warning("failed to measure the usage of %s: %s", folder, problem.strerror)
        self._counts[folder] = time.monotonic(), known
        return known

    def _lacking(self, tier: str, size: int) -> int:
        """How many bytes its disk lacks for a tier of this size, with others of fixed size filled too."""
        device = os.stat(_existing(self._tiers[tier])).st_dev
        needed = 0
        for other, capacity in self._sizes.items():
            if os.stat(_existing(self._tiers[other])).st_dev == device:
                needed += max(0, (size if other == tier else capacity) - self._taken(other))
        return needed - free_bytes(_existing(self._tiers[tier]))

    def _kept_or(self, tier: str, flag: int) -> int:
        kept = self._kept().get(tier)
        if kept is None or kept.folder != str(self._tiers[tier]) or kept.size <= flag:
            return flag
        has, says = amount_text(kept.size), amount_text(flag)
        log.warning("the tier %s has grown to %s and keeps it, though its flag says %s", tier, has, says)
        return kept.size

    def _kept(self) -> dict[str, KeptSize]:
        try:
            return msgspec.json.decode(self._kept_file.read_bytes(), type=dict[str, KeptSize])
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError as problem:
            log.warning("%s can't be read, and tiers are as large as their flags say: %s", _KEPT, problem)
            return {}

    def _keep(self, tier: str, size: int) -> None:
        sizes = {**self._kept(), tier: KeptSize(str(self._tiers[tier]), size)}
        self._kept_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._kept_file.with_name(f"{_KEPT}.draft")
        with draft.open("wb") as out:
            out.write(msgspec.json.encode(sizes))
            out.flush()
            os.fsync(out.fileno())
        draft.rename(self._kept_file)


def volume_size(folder: Path) -> int:
    """The size of the volume in a directory: that of its record or, if it is larger, of its file. One that
    was moved to another tier has its record here, and its size there."""
    record = _record(folder)
    try:
        file = (folder / _DISK).stat().st_size
    except OSError:
        file = 0
    return max(record.size if record is not None and not record.tier else 0, file)


def _record(folder: Path) -> VolumeRecord | None:
    try:
        return read_record(folder)
    except VolumeBackendError as problem:
        log.warning("%s", problem)
        return None


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
