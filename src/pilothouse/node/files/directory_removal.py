"""Folders of pods removed beside everything else.

    removal = DirectoryRemoval()
    await removal.remove(folder)           # returns when nothing is left of it; the loop goes on meanwhile

A pod decides how many files it leaves behind: a million of them take minutes, in which other pods are probed and entered as ever.
An agent that ends does not wait for it: the next one removes what is left.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.node.volumes.removal import remove

_THREADS: Final = 8


class DirectoryRemoval:
    """``node.parts.Removal``."""

    def __init__(self) -> None:
        self._threads = DaemonThreads("removing folders", _THREADS)

    async def remove(self, folder: Path) -> None:
        """Does nothing if there is no such folder. Raises OSError."""
        await self._threads.run(lambda: remove(folder))
