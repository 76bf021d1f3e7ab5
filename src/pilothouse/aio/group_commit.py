"""Group commit: many writers on the loop, one committing thread, one durable commit for all waiting writers.

    commits = GroupCommit(commit, applied, failed)   # commit runs in the thread, the others on the loop
    await commits.submit(item)                       # until a commit that holds the item was applied
    await commits.between(chore)                     # a blocking call in the thread, between two commits

Items submitted during a commit form the next group, in order: the slower the disk, the larger the groups. A
group is sent at the end of the loop's turn, so that every writer that the last commit woke can join it.
``applied`` runs before any waiter, so watchers and caches know of a write no later than its writer. A commit
that raises calls ``failed`` and fails every waiting item, since later ones may depend on the failed ones.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from time import perf_counter
from typing import Generic, TypeVar

from pilothouse.base.histogram import Histogram

T = TypeVar("T")
R = TypeVar("R")
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Closed(Exception):
    """The group commit takes no more work."""


class GroupCommit(Generic[T]):
    """One committing thread and its queue. Call every method on the loop's thread."""

    def __init__(
        self,
        commit: Callable[[Sequence[T]], None],
        applied: Callable[[Sequence[T]], None],
        failed: Callable[[Exception], None],
        *,
        largest: int = 1024,
        name: str = "group-commit",
    ) -> None:
        self._commit = commit
        self._applied = applied
        self._failed = failed
        self._largest = largest
        self.sizes = Histogram(_SIZES)
        """Items per commit."""
        self.seconds = Histogram(_SECONDS)
        """Seconds per commit, in the thread."""
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[T, asyncio.Future[None]]] = []
        self._chores: deque[tuple[Callable[[], object], asyncio.Future[object]]] = deque()
        self._busy = False
        self._scheduled = False
        self._closing = False
        self._chore_next = False
        self._jobs: SimpleQueue[Callable[[], Callable[[], None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, item: T) -> asyncio.Future[None]:
        """Returns when the item is durable and applied."""
        if self._closing:
            raise Closed
        future: asyncio.Future[None] = self._loop.create_future()
        self._pending.append((item, future))
        self._schedule()
        return future

    async def between(self, chore: Callable[[], R]) -> R:
        """Run a short blocking call in the committing thread; groups and chores take turns."""
        if self._closing:
            raise Closed
        future: asyncio.Future[object] = self._loop.create_future()
        self._chores.append((chore, future))
        self._schedule()
        return await future  # type: ignore[return-value]

    async def close(self) -> None:
        """Finish the running call, fail the rest with ``Closed``, end the thread."""
        if not self._closing:
            self._closing = True
            self._fail_waiting(Closed())
            self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        # What the thread reported last is waiting in the loop's queue.
        await asyncio.sleep(0)

    def _schedule(self) -> None:
        if (self._pending or self._chores) and not self._busy and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._scheduled = False
        if self._busy or self._closing:
            return
        if self._chores and (self._chore_next or not self._pending):
            self._chore_next = False
            self._busy = True
            chore, waiter = self._chores.popleft()
            self._jobs.put(lambda: self._run_chore(chore, waiter))
        elif self._pending:
            self._chore_next = True
            self._busy = True
            group = self._pending[: self._largest]
            del self._pending[: self._largest]
            self._jobs.put(lambda: self._run_commit(group))

    def _work(self) -> None:
        """The thread: run the blocking part of each job, and pass the rest to the loop."""
        while (job := self._jobs.get()) is not None:
            after = job()
            # The loop was closed first: no one waits for the result.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(after)

    def _run_commit(self, group: list[tuple[T, asyncio.Future[None]]]) -> Callable[[], None]:
        items = [item for item, _ in group]
        began = perf_counter()
        try:
            self._commit(items)
        except Exception as error:  # noqa: BLE001 (raised in every waiter)
            failure = error
            return lambda: self._finish_failed(group, failure)
        took = perf_counter() - began
        return lambda: self._finish_commit(items, group, took)

    def _finish_commit(
        self, items: Sequence[T], group: list[tuple[T, asyncio.Future[None]]], took: float
    ) -> None:
        self._busy = False
        self.sizes.observe(len(items))
        self.seconds.observe(took)
        self._applied(items)
        for _, future in group:
            if not future.done():
                future.set_result(None)
        self._schedule()

    def _finish_failed(self, group: list[tuple[T, asyncio.Future[None]]], error: Exception) -> None:
        self._busy = False
        self._pending[:0] = group
        self._failed(error)
        self._fail_pending(error)
        self._schedule()

    def _run_chore(self, chore: Callable[[], object], future: asyncio.Future[object]) -> Callable[[], None]:
        try:
            settle = partial(future.set_result, chore())
        except Exception as error:  # noqa: BLE001 (raised in the caller)
            settle = partial(future.set_exception, error)
        return lambda: self._finish_chore(future, settle)

    def _finish_chore(self, future: asyncio.Future[object], settle: Callable[[], None]) -> None:
        self._busy = False
        if not future.done():
            settle()
        self._schedule()

    def _fail_pending(self, error: Exception) -> None:
        pending, self._pending = self._pending, []
        for _, future in pending:
            if not future.done():
                future.set_exception(error)

    def _fail_waiting(self, error: Exception) -> None:
        self._fail_pending(error)
        while self._chores:
            _, future = self._chores.popleft()
            if not future.done():
                future.set_exception(error)
