"""The volume of an instance's data, whatever database it is of: how full it is.

    volume = DataVolume(place.folder)
    await volume.measure()
    volume.usage                          # None while there is no such folder

A filesystem that hangs, such as one over a network, holds up one thread and nothing else: no second look is begun before the first is over.
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
    """Of one instance."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.usage: DiskUsage | None = None
        """As it was last seen."""
        self._threads = DaemonThreads("volume-usage", 1)

    async def measure(self) -> None:
        """Look again. What hangs leaves what is known as it is."""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(_SECONDS):
                self.usage = await self._threads.run(lambda: usage_at(self.path))


def usage_at(path: Path) -> DiskUsage | None:
    """Of the filesystem that a folder is on; None if there is no such folder, or its filesystem has no size."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    capacity = used + found.f_bavail * found.f_frsize
    return DiskUsage(used, capacity) if capacity > 0 else None
