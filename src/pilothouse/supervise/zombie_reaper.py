"""Reaps zombies: orphans that were reparented to PID 1 of a container, or to a subreaper.

    reaper = Reaper()
    async with reaper.running():
        ...

A blind `waitpid(-1)` would take the exit codes of children that other code waits for. So zombies are first
listed (`WNOWAIT`), and only orphans are reaped.

Code that waits for a child, as asyncio does, holds a pidfd of it from its start until its exit status is
read. Both moments lie within one step of the event loop, and so does our check, so there is no race. A child
that was started without a pidfd is left to its owner for `CLAIM_SECONDS`.
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

CLAIM_SECONDS = 0.2
"""Seconds for which a zombie without a pidfd is left to the code that may have started it."""

INTERVAL = 0.05
"""Seconds between two checks, so that a thousand exits a second don't cause a thousand checks."""


def become_subreaper() -> None:
    """Have orphans among our descendants reparented to us instead of PID 1."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)


def zombies(pids: Iterable[int]) -> set[int]:
    """Those of our children that have ended and are not reaped yet."""
    found = set()
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                found.add(pid)
    return found


def pidfd_pids() -> set[int]:
    """The processes of which this process holds a pidfd."""
    found = set()
    for entry in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{entry}") as file:
            found |= {int(line.split()[1]) for line in file if line.startswith("Pid:")}
    return found


class UnclaimedZombies:
    """How long each zombie has been without an owner. No I/O."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def due(self, strangers: set[int], now: float) -> set[int]:
        """The zombies that have waited for ``CLAIM_SECONDS``."""
        self._since = {pid: self._since.get(pid, now) for pid in strangers}
        return {pid for pid, since in self._since.items() if now - since >= CLAIM_SECONDS}

    @property
    def waiting(self) -> bool:
        return bool(self._since)


class Reaper:
    def __init__(self) -> None:
        self._unclaimed = UnclaimedZombies()
        self.reaped = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run in the main thread, on stock asyncio: no other code may handle SIGCHLD."""
        loop = asyncio.get_running_loop()
        died = asyncio.Event()
        died.set()  # Some may have ended before the handler was set.
        loop.add_signal_handler(signal.SIGCHLD, died.set)
        try:
            async with BackgroundTasks({"reaper": lambda: self._reap(died)}).running():
                with _descriptors_for_children():
                    yield
        finally:
            loop.remove_signal_handler(signal.SIGCHLD)

    async def _reap(self, died: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLAIM_SECONDS if self._unclaimed.waiting else None):
                    await died.wait()
            died.clear()
            self.reap()
            await asyncio.sleep(INTERVAL)

    def reap(self) -> None:
        found = zombies(children(os.getpid()))
        if found:
            found -= pidfd_pids()
        for pid in self._unclaimed.due(found, time.monotonic()):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
                self.reaped += 1


@contextlib.contextmanager
def _descriptors_for_children() -> Iterator[None]:
    """Have asyncio wait for children by pidfds: the default from Python 3.12 on."""
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
