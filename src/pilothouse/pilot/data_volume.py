"""Usage of the volume with an instance's data.

    volume = DataVolume(instance.folder)
    await volume.measure()
    volume.usage                          # None while the folder does not exist

A filesystem that hangs blocks one thread and nothing else: no second measurement starts meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Final

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.api.navigator.disk_usage import DiskUsage

_SECONDS: Final = 5.0


class DataVolume:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.usage: DiskUsage | None = None
        """As last measured."""
        self._threads = DaemonThreads("volume-usage", 1)

    async def measure(self) -> None:
        """Measure again. If that hangs or fails, ``usage`` stays as it is."""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(_SECONDS):
                self.usage = await self._threads.run(lambda: usage_at(self.path))


def usage_at(path: Path) -> DiskUsage | None:
    """None if the folder does not exist, or its filesystem has no size."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    capacity = used + found.f_bavail * found.f_frsize
    return DiskUsage(used, capacity) if capacity > 0 else None
