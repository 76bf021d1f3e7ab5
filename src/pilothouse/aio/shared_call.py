"""Joins concurrent calls, without an answer that is older than the question.

    shared = SharedCall(store.revision)
    await shared()   # with a hundred callers at once: one or two calls of store.revision

A caller that arrives during a call waits for the next one, together with all that arrived meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedCall(Generic[T]):
    __slots__ = ("_call", "_running", "_waiting")

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call
        self._running: asyncio.Task[T] | None = None
        self._waiting: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        task = self._waiting
        if task is None:
            task = self._waiting = asyncio.get_running_loop().create_task(self._after(self._running))
            task.add_done_callback(_retrieve_failure)
        # One caller that is cancelled must not cancel the call of the others.
        return await asyncio.shield(task)

    async def _after(self, running: asyncio.Task[T] | None) -> T:
        if running is not None and not running.done():
            await asyncio.wait((running,))
        # From here on callers are too late for this call.
        self._running, self._waiting = self._waiting, None
        return await self._call()


def _retrieve_failure(task: asyncio.Task[T]) -> None:
    """For a call whose callers are all cancelled: asyncio would log its failure as never retrieved."""
    if not task.cancelled():
        task.exception()
