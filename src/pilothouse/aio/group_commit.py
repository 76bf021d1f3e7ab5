"""Group commit: many writers on the loop, one thread that commits, one durable commit for all who wait.

    commits = GroupCommit(commit, applied, ...) # commit(items): blocking, in the thread; applied(items): on the loop
    await commits.submit(item)                  # returns once a commit that holds the item has returned and been applied
    await commits.between(chore)                # a blocking call in the same thread, between two commits

Items submitted while a commit is under way form the next group, so the slower the disk, the larger the groups. Items
are committed in the order of their submission. A group goes out at the end of the loop's tick, which lets everyone who
was woken by the last commit join the next.

``applied`` runs before any of the group's waiters: whoever it tells of the group (watchers, caches) knows of a write
no later than its writer. A commit that raises fails every item that is waiting, also those of the group that is
forming, since they may have been decided on the strength of the ones that failed; ``failed`` is called first.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
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
    """One committing thread, and what waits for it. Every method is to be called on the loop's thread."""

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
        """How many items were committed together,"""
        self.seconds = Histogram(_SECONDS)
        """and how long that took, in the thread."""
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
        """Have an item committed; done when it is durable and applied."""
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
        """Finish the call that is under way, fail the rest with ``Closed``, end the thread."""
        if not self._closing:
            self._closing = True
            self._fail_waiting(Closed())
            self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        # What the thread reported last is waiting in the loop's queue.
        await asyncio.sleep(0)

    def _schedule(self) -> None:
        if not self._busy and not self._scheduled:
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
        """The thread: take a job, do its blocking part, have the loop do the rest."""
        while (job := self._jobs.get()) is not None:
            after = job()
            # A loop that was closed before us has nobody left to tell.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(after)

    def _run_commit(self, group: list[tuple[T, asyncio.Future[None]]]) -> Callable[[], None]:
        items = [item for item, _ in group]
        began = perf_counter()
        try:
            self._commit(items)
        except Exception as error:  # noqa: BLE001 - handed to everyone who waits
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
        if self._pending or self._chores:
            self._schedule()

    def _finish_failed(self, group: list[tuple[T, asyncio.Future[None]]], error: Exception) -> None:
        self._busy = False
        self._pending[:0] = group
        self._failed(error)
        self._fail_pending(error)
        if self._chores:
            self._schedule()

    def _run_chore(self, chore: Callable[[], object], future: asyncio.Future[object]) -> Callable[[], None]:
        try:
            result = chore()
        except Exception as error:  # noqa: BLE001 - handed to whoever asked
            failure = error
            return lambda: self._finish_chore(future, None, failure)
        return lambda: self._finish_chore(future, result, None)

    def _finish_chore(self, future: asyncio.Future[object], result: object, error: Exception | None) -> None:
        self._busy = False
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        if self._pending or self._chores:
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
