"""Daemon threads for blocking work that may take minutes; they do not delay the end of the process.

    walks = DaemonThreads("measuring", 2)
    size = await walks.run(lambda: sum(file.stat().st_size for file in folder.rglob("*")))

The loop's default executor is for short work, which must not wait for threads that are occupied for minutes.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

_T = TypeVar("_T")


class DaemonThreads:
    """At most ``count`` threads at a time; callers are served in order."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._places = asyncio.Semaphore(count)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return or raise what ``work`` does. Raises OSError (EAGAIN) if no thread can be started.

        A cancelled caller returns at once; its work runs to its end and occupies its thread until then.
        """
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()

        def finish(settle: Callable[[], None]) -> None:
            self._places.release()
            if not answer.done():
                settle()

        def compute() -> None:
            try:
                settle = partial(answer.set_result, work())
            except BaseException as problem:  # noqa: BLE001 (raised in the caller)
                settle = partial(answer.set_exception, problem)
            with suppress(RuntimeError):  # The loop is closed: no caller is left.
                loop.call_soon_threadsafe(finish, settle)

        try:
            Thread(target=compute, name=self._name, daemon=True).start()
        except RuntimeError as problem:
            self._places.release()
            raise OSError(errno.EAGAIN, str(problem)) from None
        return await answer
