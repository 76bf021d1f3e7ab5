"""Runs long computations in a thread beside the event loop, one at a time.

    value = await worker.run("alice", lambda: sorted(large))      # the loop runs meanwhile
    found = on_loop(cache.find, key)          # in the worker: runs on the loop; elsewhere: a plain call

Python runs one thread at a time, so more threads would only slow down the loop. Owners take turns: a hundred
computations of one owner delay the first of another by one.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Final, TypeVar

_T = TypeVar("_T")

SWITCH_SECONDS: Final = 0.001
"""How long a computation holds the interpreter while the loop waits for it. The interpreter's own 5 ms would
come several times in each request."""

_within = threading.local()


def on_loop(function: Callable[..., _T], *args: object) -> _T:
    """Call a function on the loop of this worker; in any other thread, directly."""
    loop: asyncio.AbstractEventLoop | None = getattr(_within, "loop", None)
    if loop is None:
        return function(*args)
    answer: Future[_T] = Future()

    def call() -> None:
        try:
            answer.set_result(function(*args))
        except BaseException as problem:  # noqa: BLE001 - it is raised where the function was called
            answer.set_exception(problem)

    loop.call_soon_threadsafe(call, context=contextvars.copy_context())
    return answer.result()


class WorkerThread:
    def __init__(self) -> None:
        self._busy = False
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """By owner, the next one first."""

    async def run(self, owner: Hashable, work: Callable[[], _T]) -> _T:
        """Return or raise what ``work`` does. It is never interrupted: a cancellation waits for it."""
        await self._turn(owner)
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        try:
            running = loop.run_in_executor(None, context.run, _compute, loop, work)
        except BaseException:
            self._pass_on()
            raise
        running.add_done_callback(self._ended)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The computation may still use what its caller is about to close.
            await asyncio.wait([running])
            raise

    async def _turn(self, owner: Hashable) -> None:
        if not self._busy:
            self._busy = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _ended(self, running: asyncio.Future[_T]) -> None:
        if not running.cancelled():
            # Retrieved here, in case the caller is gone.
            running.exception()
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            owner = next(iter(self._waiting))
            queue = self._waiting.pop(owner)
            turn = queue.popleft()
            if queue:
                self._waiting[owner] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False


def _compute(loop: asyncio.AbstractEventLoop, work: Callable[[], _T]) -> _T:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_SECONDS))
    _within.loop = loop
    try:
        return work()
    finally:
        _within.loop = None
        sys.setswitchinterval(before)
