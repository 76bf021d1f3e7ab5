"""Containers that run though no agent looks after them: those of a node that was told to keep them, or was killed.

await stop_leftovers(data / "node", patience=60)      # how many there were
"""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

from pilothouse.node.volumes.machine import mounts, under, unmount
from pilothouse.supervise import containers
from pilothouse.supervise.containers import Container

GRACE = 30.0
"""Seconds that a container gets to end by itself, as a pod that says nothing else."""

log = logging.getLogger(__name__)


async def running(node: Path) -> list[Container]:
    """Every container of a node's folder that runs."""
    found = []
    for folder in sorted((node / "pods").glob("*/containers/*/*")):
        if folder.is_dir() and isinstance(one := await containers.adopt(folder), Container):
            found.append(one)
    return found


async def stop_leftovers(node: Path, *, patience: float) -> int:
    """Have all of them end, and nothing of the node stay mounted; how many there were."""
    found = await running(node)
    grace = min(GRACE, patience)
    await asyncio.gather(*(one.stop(signal.SIGTERM, grace) for one in found))
    for mounted in under(mounts(), node):
        try:
            unmount(mounted.target)
        except OSError as problem:
            log.warning("%s stays mounted: %s", mounted.target, problem.strerror)
    return len(found)
