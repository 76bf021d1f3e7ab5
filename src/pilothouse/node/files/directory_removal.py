"""Removes directories of pods in background threads.

    removal = DirectoryRemoval()
    await removal.remove(folder)           # returns when nothing is left of it

A pod may leave a million files, which takes minutes to remove. An agent that exits does not wait: the next
one goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.node.volumes.removal import remove

_THREADS: Final = 8


class DirectoryRemoval:
    """Implements ``interfaces.DirectoryRemover``."""

    def __init__(self) -> None:
        self._threads = DaemonThreads("removing folders", _THREADS)

    async def remove(self, folder: Path) -> None:
        """Does nothing if the directory is missing. Raises OSError."""
        await self._threads.run(lambda: remove(folder))
