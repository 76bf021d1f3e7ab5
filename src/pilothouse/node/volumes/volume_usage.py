"""The usage of volumes, as kubelet's metrics and as Portworx'.

    for line in metrics(await volumes.usage()): ...     # kubelet_volume_stats_used_bytes{namespace=…} 1234

A volume is measured as long as its pod is here, whether its containers run or not: a database that can't
start because its volume is full is a reason to look at the figures. Portworx' names, by ``volumename``, are
for rules that were written for it.

A loop volume's filesystem reports its usage. For a directory the files are counted, and its capacity is the
claim's, or what the disk has left if that is less.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.api.local_volumes import DIRECTORY
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import parse_quantity
from pilothouse.node.files.directory_usage import measure_disk_usage
from pilothouse.node.files.walk_limits import Meter, WalkLimit
from pilothouse.node.volumes.claim_volumes import VolumeInUse

_COUNTING: Final = 60.0
"""Seconds for which a count of a directory is valid."""
_PATIENCE: Final = 5.0
"""Seconds to wait for a count."""
_COUNTED: Final = WalkLimit(depth=4096, entries=10_000_000, seconds=120.0)

log = logging.getLogger(__name__)


class MeasuredUsage(msgspec.Struct, frozen=True):
    """How full the volume of a claim is: bytes and inodes."""

    namespace: str
    claim: str
    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int
    inodes_used: int
    volume: str = ""
    """The name of its PersistentVolume."""
    provisioned: int = 0
    """The capacity that the PersistentVolume has, in bytes; its filesystem has less."""
    read_limit: int | None = None
    """Reads a second that its class allows."""
    write_limit: int | None = None


METRICS = {
    "kubelet_volume_stats_capacity_bytes": ("capacity", "Capacity in bytes of the volume"),
    "kubelet_volume_stats_available_bytes": ("available", "Number of available bytes in the volume"),
    "kubelet_volume_stats_used_bytes": ("used", "Number of used bytes in the volume"),
    "kubelet_volume_stats_inodes": ("inodes", "Maximum number of inodes in the volume"),
    "kubelet_volume_stats_inodes_free": ("inodes_free", "Number of free inodes in the volume"),
    "kubelet_volume_stats_inodes_used": ("inodes_used", "Number of used inodes in the volume"),
}
"""The field and the help text of each metric, by ``namespace`` and ``persistentvolumeclaim``."""
VOLUME_METRICS = {
    "px_volume_usage_bytes": ("used", "Number of used bytes in the volume"),
    "px_volume_capacity_bytes": ("provisioned", "Capacity in bytes of the volume"),
    "px_volume_fs_usage_bytes": ("used", "Number of used bytes in the volume's filesystem"),
    "px_volume_fs_capacity_bytes": ("capacity", "Capacity in bytes of the volume's filesystem"),
}
"""The same by ``volumename``, as Portworx has it."""
LIMIT_METRICS = {
    "pilothouse_volume_read_iops_limit": ("read_limit", "Reads a second that the volume's class allows"),
    "pilothouse_volume_write_iops_limit": ("write_limit", "Writes a second that the volume's class allows"),
}
"""Of volumes that have such a limit, by ``volumename``."""


class VolumeMeter:
    """Measures volumes. Directories are counted at most once a minute, in one thread; meanwhile the last
    count is returned, after ``_PATIENCE`` seconds at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted: dict[str, tuple[float, MeasuredUsage | None]] = {}
        """When the count began, and its result; None if it failed."""
        self._counting: dict[str, asyncio.Task[None]] = {}
        self._threads = DaemonThreads("counting", 1)

    async def measure(self, volumes: Iterable[VolumeInUse]) -> list[MeasuredUsage]:
        """The usage of all volumes that can be measured; errors are logged."""
        every = list(volumes)
        asked = [volume for volume in every if volume.backend != DIRECTORY]
        # In one thread: there may be thousands, and a filesystem may take long to answer.
        found = await asyncio.to_thread(lambda: [_measured(volume) for volume in asked])
        counted = [self._of_directory(volume) for volume in every if volume.backend == DIRECTORY]
        return [one for one in (*found, *await asyncio.gather(*counted)) if one is not None]

    async def _of_directory(self, volume: VolumeInUse) -> MeasuredUsage | None:
        at, known = self._counted.get(volume.volume, (-_COUNTING, None))
        if self._clock.monotonic() - at >= _COUNTING:
            counting = self._counting.get(volume.volume)
            if counting is None:
                counting = asyncio.get_running_loop().create_task(self._count(volume))
                self._counting[volume.volume] = counting
                counting.add_done_callback(lambda _: self._counting.pop(volume.volume))
            await asyncio.wait([counting], timeout=_PATIENCE)
            _, known = self._counted.get(volume.volume, (at, known))
        return known

    async def _count(self, volume: VolumeInUse) -> None:
        now = self._clock.monotonic()
        self._counted[volume.volume] = now, await self._threads.run(lambda: _measured(volume))


def _measured(volume: VolumeInUse) -> MeasuredUsage | None:
    try:
        return measured(volume)
    except OSError as problem:
        log.warning("failed to measure the usage of %s: %s", volume.path, problem.strerror)
        return None


def measured(volume: VolumeInUse) -> MeasuredUsage:
    """Raises OSError."""
    found = os.statvfs(volume.path)
    capacity, available = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    used = capacity - found.f_bfree * found.f_frsize
    provisioned = _bytes(volume.capacity) if volume.capacity else capacity
    if volume.backend == DIRECTORY and volume.capacity:
        counted = measure_disk_usage(volume.path, Meter(_COUNTED))
        if counted.unmeasured:
            raise OSError(errno.EFBIG, counted.unmeasured, str(volume.path))
        used = counted.size
        capacity = provisioned
        available = max(0, min(available, capacity - used))
    return MeasuredUsage(
        volume.namespace,
        volume.claim,
        capacity,
        available,
        used,
        found.f_files,
        found.f_ffree,
        found.f_files - found.f_ffree,
        volume.volume,
        provisioned,
        volume.throttle.read_operations if volume.throttle is not None else None,
        volume.throttle.write_operations if volume.throttle is not None else None,
    )


@lru_cache(maxsize=1024)
def _bytes(capacity: str) -> int:
    """Cached: most volumes have one of a few sizes."""
    return parse_quantity(capacity).to_int()


def metrics(usage: Iterable[MeasuredUsage]) -> Iterator[str]:
    every = list(usage)
    claims = [f'{{namespace="{one.namespace}",persistentvolumeclaim="{one.claim}"}}' for one in every]
    volumes = [f'{{volumename="{one.volume}"}}' for one in every]
    for table, labels in ((METRICS, claims), (VOLUME_METRICS, volumes)):
        for name, (field, text) in table.items():
            yield f"# HELP {name} {text}"
            yield f"# TYPE {name} gauge"
            for each, one in zip(labels, every, strict=True):
                yield f"{name}{each} {getattr(one, field)}"
    for name, (field, text) in LIMIT_METRICS.items():
        limited = [(each, getattr(one, field)) for each, one in zip(volumes, every, strict=True)]
        if any(limit for _, limit in limited):
            yield f"# HELP {name} {text}"
            yield f"# TYPE {name} gauge"
            yield from (f"{name}{each} {limit}" for each, limit in limited if limit)
