"""Burying the dead: what the first process of a container or a subreaper owes to orphans that come to it.

    reaper = Reaper(mine=children.__contains__)
    async with reaper.running():
        ...

A process's children are waited for by whoever started them; orphans by nobody, unless by us. A blind `waitpid(-1)` would take
the exit codes of both. So the dead are only looked at first (`WNOWAIT`), and only strangers are buried: not those that `mine` knows,
and no other before it has been dead for a moment, since a library that starts children of its own waits for them promptly.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable

from pilothouse.supervise.shim import kernel
from pilothouse.supervise.shim.descending import children

PATIENCE = 0.2
"""Seconds for which a dead child is left to whoever may have started it."""

PAUSE = 0.05
"""Seconds between two looks, so that a thousand deaths a second don't make a thousand of them."""


def become_subreaper() -> None:
    """Orphans of our children come to us rather than to the machine's first process."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)


def dead(pids: Iterable[int]) -> set[int]:
    """Which of our children have ended and wait to be buried."""
    found = set()
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                found.add(pid)
    return found


class Graves:
    """Who has been dead since when. No I/O: told what is seen, it says who is to be buried."""

    def __init__(self, mine: Callable[[int], bool]) -> None:
        self._mine = mine
        self._since: dict[int, float] = {}

    def due(self, seen: set[int], now: float) -> set[int]:
        """Strangers among `seen` that have been dead for long enough."""
        strangers = {pid for pid in seen if not self._mine(pid)}
        self._since = {pid: self._since.get(pid, now) for pid in strangers}
        return {pid for pid, since in self._since.items() if now - since >= PATIENCE}

    @property
    def waiting(self) -> bool:
        return bool(self._since)


class Reaper:
    """Buries strangers for as long as it runs. `mine` tells which children someone here waits for."""

    def __init__(self, mine: Callable[[int], bool]) -> None:
        self._graves = Graves(mine)
        self.buried = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """In the main thread, on stock asyncio: the signal is ours alone."""
        loop = asyncio.get_running_loop()
        died = asyncio.Event()
        died.set()  # Some may have before we listened.
        loop.add_signal_handler(signal.SIGCHLD, died.set)
        task = asyncio.create_task(self._bury(died), name="reaper")
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGCHLD)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _bury(self, died: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE if self._graves.waiting else None):
                    await died.wait()
            died.clear()
            self.look()
            await asyncio.sleep(PAUSE)

    def look(self) -> None:
        """Once."""
        seen = dead(children(os.getpid()))
        for pid in self._graves.due(seen, time.monotonic()):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
                self.buried += 1
