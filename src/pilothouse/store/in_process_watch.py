"""Watchers of a store in this process.

    watchers = StoreWatchers(history, revision=41, progress_every=10)
    async with watchers.open("/pods/", after=40) as batches:
        watchers.publish([change], 42)          # in the store's commit
        async for batch in batches: ...         # first what history has above 40, then this

A live watcher gets matching changes into its buffer. One that starts in the past, or whose buffer overflowed,
is behind: it reads pages of history at its own pace while later changes collect in the buffer. Memory is
bounded and nothing is dropped; only a compaction that overtakes the reader ends its watch. Everything up to
``position`` has been handed out, everything above ``floor`` is in the buffer; live means that both are equal.
``_marked`` is the last mark handed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from pilothouse.store.interface import Batch, Change, StoreError

BUFFERED = 8192
"""How many changes wait for a slow reader before it has to read history."""

PAGE = 1024
"""How many changes are read from history at once."""


class ChangeHistory(Protocol):
    """Reads past changes."""

    async def changes(self, prefix: str, after: int, upto: int, limit: int) -> tuple[Sequence[Change], int]:
        """Changes below ``prefix`` above ``after`` and up to ``upto``: whole revisions, about ``limit``
        changes.

        Also the revision up to which they are complete. Raises ``Compacted``.
        """


class StoreWatcher:
    """One reader's place in the stream of changes: an async iterator of batches."""

    def __init__(self, watchers: StoreWatchers, prefix: str, after: int) -> None:
        self.prefix = prefix
        self.position = after
        self._marked = after
        self._floor = max(after, watchers.revision)
        self._watchers = watchers
        self._buffer: list[Change] = []
        self._overflowed = False
        self._mark_wanted = False
        self._waiter: asyncio.Future[None] | None = None
        self._error: StoreError | None = None
        self._ended = False

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    async def __anext__(self) -> Batch:
        while not self._ended:
            behind = self._overflowed or self.position < self._floor
            batch = await self._catch_up() if behind else self._take()
            if batch is not None:
                return batch
            if behind:
                continue
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        raise StopAsyncIteration

    def offer(self, changes: Sequence[Change]) -> None:
        """Changes have been committed; those below the prefix are this watcher's."""
        if self._overflowed:
            return
        prefix, floor = self.prefix, self._floor
        found = [each for each in changes if each.key.startswith(prefix) and each.revision > floor]
        if not found:
            return
        if len(self._buffer) + len(found) > BUFFERED:
            self._buffer = []
            self._overflowed = True
        else:
            self._buffer += found
        self.wake()

    def mark(self) -> None:
        self._mark_wanted = True
        self.wake()

    def fail(self, error: StoreError) -> None:
        self._error = error
        self.wake()

    def end(self) -> None:
        self._ended = True
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> Batch | None:
        """What is in the buffer. The hub's revision is its mark: a live buffer lacks nothing up to there."""
        revision = self._watchers.revision
        if self._buffer:
            changes, self._buffer = tuple(self._buffer), []
        elif self._mark_wanted and revision > self._marked:
            changes = ()
        else:
            self._mark_wanted = False
            return None
        self._mark_wanted = False
        self.position = self._floor = self._marked = revision
        return Batch(changes, revision)

    async def _catch_up(self) -> Batch | None:
        """The next page of history. The position moves after the read, so a cancelled call loses nothing."""
        if self._error is not None:
            raise self._error
        if self._overflowed:
            self._overflowed = False
            self._floor = self._watchers.revision
        changes, complete = await self._watchers.history.changes(
            self.prefix, self.position, self._floor, PAGE
        )
        self.position = complete
        if not changes:
            return None
        self._marked = complete
        return Batch(tuple(changes), complete)


class StoreWatchers:
    def __init__(self, history: ChangeHistory, *, revision: int, progress_every: float) -> None:
        self.history = history
        self.revision = revision
        self._progress_every = progress_every
        self._open: dict[StoreWatcher, None] = {}
        # In the order they came: a set of them would have another order in each process.
        self._by_parent: dict[str, tuple[StoreWatcher, ...]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._error: StoreError | None = None

    @asynccontextmanager
    async def open(self, prefix: str, after: int) -> AsyncIterator[AsyncIterator[Batch]]:
        if self._error is not None:
            raise self._error
        watcher = StoreWatcher(self, prefix, after)
        self._open[watcher] = None
        self._by_parent.clear()
        self._arm()
        try:
            yield watcher
        finally:
            watcher.end()
            self._open.pop(watcher, None)
            self._by_parent.clear()
            if not self._open and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def publish(self, changes: Sequence[Change], revision: int) -> None:
        """One commit's changes, in order; the store is at ``revision``.

        A single watcher, usually the server's cache, gets them all; of many, those whose prefix matches.
        """
        self.revision = revision
        if len(self._open) == 1:
            for watcher in self._open:
                watcher.offer(changes)
            return
        if self._open:
            for change in changes:
                for watcher in self._interested(change.key):
                    watcher.offer((change,))

    def mark(self) -> None:
        for watcher in self._open:
            watcher.mark()

    def close(self, error: StoreError) -> None:
        """End every watch with ``error``, once it has handed out what it holds."""
        self._error = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for watcher in self._open:
            watcher.fail(error)

    def _interested(self, key: str) -> tuple[StoreWatcher, ...]:
        """The watchers of a key, cached by its folder: there are few folders and many keys."""
        parent = key[: key.rfind("/") + 1]
        found = self._by_parent.get(parent)
        if found is None:
            if len(self._by_parent) > 4096:
                self._by_parent.clear()
            found = tuple(w for w in self._open if parent.startswith(w.prefix) or w.prefix.startswith(parent))
            self._by_parent[parent] = found
        return found

    def _arm(self) -> None:
        if self._timer is None and self._progress_every > 0:
            self._timer = asyncio.get_running_loop().call_later(self._progress_every, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.mark()
        if self._open:
            self._arm()
