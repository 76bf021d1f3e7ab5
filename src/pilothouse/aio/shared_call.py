"""Joins concurrent calls, without an answer that is older than the question.

    shared = SharedCall(store.revision)
    await shared()   # with a hundred callers at once: one or two calls of store.revision

A caller that arrives during a call can't use its answer, which may be older than the question. It waits for
the next call, together with all that arrived meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedCall(Generic[T]):
    """Joins concurrent calls of a coroutine function without arguments."""

    __slots__ = ("_call", "_running", "_waiting")

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call
        self._running: asyncio.Task[T] | None = None
        self._waiting: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        task = self._waiting
        if task is None:
            task = self._waiting = asyncio.get_running_loop().create_task(self._after(self._running))
            task.add_done_callback(_look)
        # One caller that gives up must not take the call away from the others.
        return await asyncio.shield(task)

    async def _after(self, running: asyncio.Task[T] | None) -> T:
        if running is not None and not running.done():
            await asyncio.wait((running,))
        # From here on callers are too late for this call.
        self._running, self._waiting = self._waiting, None
        return await self._call()


def _look(task: asyncio.Task[T]) -> None:
    """Retrieve a failure even if all callers are gone, so that asyncio does not log it as never retrieved."""
    if not task.cancelled():
        task.exception()
