"""Burying the dead: what the first process of a container or a subreaper owes to orphans that come to it.

    reaper = Reaper()
    async with reaper.running():
        ...

A process's children are waited for by whoever started them; orphans by nobody, unless by us. A blind `waitpid(-1)` would take
the exit codes of both. So the dead are only looked at first (`WNOWAIT`), and only strangers are buried.

Who waits for a child holds a descriptor of it (a pidfd) from its start until its end has been taken: asyncio does, and whoever starts
a process without it should too. Both moments lie within one step of the event loop, and so does our look: there is no instant
in between, however slow the machine. What others may start without a descriptor gets a moment (`PATIENCE`), which is all
that can be done for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator

from pilothouse.aio.background_tasks import BackgroundTasks
from pilothouse.supervise.shim import kernel
from pilothouse.supervise.shim.process_tree import children

PATIENCE = 0.2
"""Seconds for which a dead child of whom nobody has a descriptor is left to whoever may have started it."""

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


def awaited() -> set[int]:
    """The processes of which we hold descriptors."""
    found = set()
    for entry in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{entry}") as file:
            found |= {int(line.split()[1]) for line in file if line.startswith("Pid:")}
    return found


class ExitStatuses:
    """Who has been dead since when. No I/O: told what is seen, it says who is to be buried."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def due(self, strangers: set[int], now: float) -> set[int]:
        """Those that have been dead for long enough."""
        self._since = {pid: self._since.get(pid, now) for pid in strangers}
        return {pid for pid, since in self._since.items() if now - since >= PATIENCE}

    @property
    def waiting(self) -> bool:
        return bool(self._since)


class Reaper:
    """Buries strangers for as long as it runs."""

    def __init__(self) -> None:
        self._graves = ExitStatuses()
        self.buried = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """In the main thread, on stock asyncio: the signal is ours alone."""
        loop = asyncio.get_running_loop()
        died = asyncio.Event()
        died.set()  # Some may have before we listened.
        loop.add_signal_handler(signal.SIGCHLD, died.set)
        try:
            async with BackgroundTasks({"reaper": lambda: self._bury(died)}).running():
                with _descriptors_for_children():
                    yield
        finally:
            loop.remove_signal_handler(signal.SIGCHLD)

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
        found = dead(children(os.getpid()))
        if found:
            found -= awaited()
        for pid in self._graves.due(found, time.monotonic()):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
                self.buried += 1


@contextlib.contextmanager
def _descriptors_for_children() -> Iterator[None]:
    """asyncio waits for children by descriptors; before Python 3.12 only if it is told to."""
    if sys.version_info >= (3, 12):
        yield
    else:
        before, watcher = asyncio.get_child_watcher(), asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.set_child_watcher(watcher)
        try:
            yield
        finally:
            asyncio.set_child_watcher(before)
