"""Blocking work in threads of its own kind, that nobody waits for when the process ends.

    walks = DaemonThreads("measuring", 2)
    size = await walks.run(lambda: sum(file.stat().st_size for file in folder.rglob("*")))

The loop's own executor is shared by everything that has something short to do: work that may take minutes, or as long as
somebody else likes, would take its threads from all of them. Each ``DaemonThreads`` has its own, and its callers wait for
one another only. A caller that is cancelled leaves at once; its work goes on to its end, and keeps its place until then.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

_T = TypeVar("_T")


class DaemonThreads:
    """At most so many at a time; whoever comes first is first."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._places = asyncio.Semaphore(count)

    async def run(self, work: Callable[[], _T]) -> _T:
        """What ``work`` returns or raises. Raises OSError (EAGAIN), if the machine has no thread to spare."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()

        def finish(settle: Callable[[], None]) -> None:
            self._places.release()
            if not answer.done():
                settle()

        def compute() -> None:
            try:
                found = work()
            except BaseException as problem:  # noqa: BLE001 (raised where it was asked for)
                raised = problem
                settle = lambda: answer.set_exception(raised)  # noqa: E731
            else:
                settle = lambda: answer.set_result(found)  # noqa: E731
            with suppress(RuntimeError):  # The loop is closed: nobody asks any more.
                loop.call_soon_threadsafe(finish, settle)

        try:
            Thread(target=compute, name=self._name, daemon=True).start()
        except RuntimeError as problem:
            self._places.release()
            raise OSError(errno.EAGAIN, str(problem)) from None
        return await answer
