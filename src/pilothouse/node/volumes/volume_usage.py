"""The usage of volumes, as kubelet's metrics.

    for line in metrics(await volumes.usage()): ...         # kubelet_volume_stats_used_bytes{namespace="default",…} 1234

A loop volume is a filesystem, and is asked. A directory shares one: what its files take is counted, and what it has is what its claim says, or what the
disk has left if that is less.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Iterable, Iterator
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
"""Seconds for which a count of a directory is good."""
_PATIENCE: Final = 5.0
"""Seconds for which a count is waited for."""
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


METRICS = {
    "kubelet_volume_stats_capacity_bytes": ("capacity", "Capacity in bytes of the volume"),
    "kubelet_volume_stats_available_bytes": ("available", "Number of available bytes in the volume"),
    "kubelet_volume_stats_used_bytes": ("used", "Number of used bytes in the volume"),
    "kubelet_volume_stats_inodes": ("inodes", "Maximum number of inodes in the volume"),
    "kubelet_volume_stats_inodes_free": ("inodes_free", "Number of free inodes in the volume"),
    "kubelet_volume_stats_inodes_used": ("inodes_used", "Number of used inodes in the volume"),
}
"""The field and the help text of each metric."""


class VolumeMeter:
    """Measures volumes. To count a directory takes a look at each of its files, so it is done once a minute at most, in one thread for
    all of them. Who asks meanwhile gets the count before that, and waits ``_PATIENCE`` seconds at most.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted: dict[str, tuple[float, MeasuredUsage | None]] = {}
        """When it was begun, and what came of it; None if it could not be counted."""
        self._counting: dict[str, asyncio.Task[None]] = {}
        self._threads = DaemonThreads("counting", 1)

    async def measure(self, volumes: Iterable[VolumeInUse]) -> list[MeasuredUsage]:
        """Those that can be measured. One that can't be is logged: it is none that a pod could use either, or its files have no end."""
        found = await asyncio.gather(*(self._one(volume) for volume in volumes))
        return [one for one in found if one is not None]

    async def _one(self, volume: VolumeInUse) -> MeasuredUsage | None:
        if volume.backend != DIRECTORY:
            return _measured(volume)
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
        log.warning("can't measure the usage of %s: %s", volume.path, problem.strerror)
        return None


def measured(volume: VolumeInUse) -> MeasuredUsage:
    """Raises OSError."""
    found = os.statvfs(volume.path)
    capacity, available = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    used = capacity - found.f_bfree * found.f_frsize
    if volume.backend == DIRECTORY and volume.capacity:
        counted = measure_disk_usage(volume.path, Meter(_COUNTED))
        if counted.unmeasured:
            raise OSError(errno.EFBIG, counted.unmeasured, str(volume.path))
        used = counted.size
        capacity = parse_quantity(volume.capacity).to_int()
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
    )


def metrics(usage: Iterable[MeasuredUsage]) -> Iterator[str]:
    """The lines of a metrics page."""
    every = list(usage)
    for name, (field, text) in METRICS.items():
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} gauge"
        for one in every:
            yield f'{name}{{namespace="{one.namespace}",persistentvolumeclaim="{one.claim}"}} {getattr(one, field)}'
