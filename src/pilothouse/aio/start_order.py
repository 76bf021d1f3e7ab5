"""Groups of tasks that start in order and stop in reverse order, each within a time limit.

    parts = Ordered([
        StartGroup("caches", [follow], patience=2, ready=caches.synced),
        StartGroup("decisions", [decide], patience=10),
    ])
    await parts.run()                # until cancelled, or until a task ends

A group starts when the previous ones are ready. On cancellation, or when a task fails or ends, the last group
is cancelled first; tasks that have not ended after ``patience`` seconds are logged and abandoned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

Part = Callable[[], Awaitable[None]]

log = logging.getLogger(__name__)


async def _at_once() -> None:
    return None


@dataclass(frozen=True, slots=True)
class StartGroup:
    """Tasks that start and stop together."""

    name: str
    parts: Sequence[Part]
    patience: float
    """Seconds to stop in."""
    ready: Part = _at_once
    """Returns when the next group may start."""


class Ordered:
    def __init__(self, groups: Sequence[StartGroup]) -> None:
        self._groups = tuple(groups)

    async def run(self) -> None:
        """Run all groups until cancelled or a task ends. A failure is raised once everything has stopped."""
        started: list[tuple[StartGroup, list[asyncio.Future[None]]]] = []
        running: list[asyncio.Future[None]] = []
        ended: set[asyncio.Future[None]] = set()
        try:
            for group in self._groups:
                tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(part()) for part in group.parts]
                started.append((group, tasks))
                running += tasks
                ended = await _until(group.ready, running)
                if ended:
                    break
            else:
                ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for group, tasks in reversed(started):
                await _stop(group, tasks)
        for task in ended:
            await task


async def _until(ready: Part, tasks: Sequence[asyncio.Future[None]]) -> set[asyncio.Future[None]]:
    """Wait until ready, or until a task ends; returns the ended tasks."""
    becoming: asyncio.Future[None] = asyncio.ensure_future(ready())
    try:
        await asyncio.wait([becoming, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if becoming.done():
            becoming.result()
    finally:
        becoming.cancel()
        await asyncio.gather(becoming, return_exceptions=True)
    return {task for task in tasks if task.done()}


async def _stop(group: StartGroup, tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    left = [task for task in tasks if not task.done()]
    _, late = await asyncio.wait(left, timeout=group.patience) if left else ((), ())
    if late:
        log.error("%s: %d parts did not stop within %gs", group.name, len(late), group.patience)
