"""A store in memory: the simple reference model, for tests and the simulator.

    store = MemoryStore()
    await store.create("/a", b"1")

It has the latest values in a dictionary and all changes since the last compaction in a list; a past listing
undoes the later changes.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from pilothouse.store.in_process_store import InProcessStore, Past
from pilothouse.store.interface import Change, Entry, Guard, Unavailable
from pilothouse.store.keys import SortedKeys, end_of


class _Done(NamedTuple):
    """A write and its previous state."""

    revision: int
    change: Change
    previous: Entry | None
    """What stood there before; None for a key that came into being."""


class MemoryStore(InProcessStore):
    def __init__(
        self, *, clock: Callable[[], float] = time.time, largest: int = 8 << 20, progress_every: float = 5.0
    ) -> None:
        super().__init__(
            {}, revision=1, compacted=0, clock=clock, largest=largest, progress_every=progress_every
        )
        self._log: list[_Done] = []

    async def create(self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None) -> int:
        self._check(key, 0, value, guard)
        return await self._write(key, value, ttl)

    async def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> int:
        self._check(key, revision or -1, value, guard)
        return await self._write(key, value, ttl)

    async def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> int:
        self._check(key, revision or -1, b"", guard)
        return await self._write(key, None, 0)

    async def compact(self, revision: int) -> None:
        self._check_open()
        self._check_reached(revision)
        if revision > self._compacted:
            self._compacted = revision
            del self._log[: bisect_right(self._log, revision, key=attrgetter("revision"))]

    async def close(self) -> None:
        self._closed = True
        self._expirations.stop()
        self._watchers.close(Unavailable("the store is closed"))

    async def changes(self, prefix: str, after: int, upto: int, limit: int) -> tuple[Sequence[Change], int]:
        self._check_kept(after)
        found: list[Change] = []
        for i in range(bisect_right(self._log, after, key=attrgetter("revision")), len(self._log)):
            change = self._log[i].change
            if change.revision > upto:
                break
            if change.key.startswith(prefix):
                found.append(change)
                if len(found) == limit:
                    return found, change.revision
        return found, upto

    async def _past(self, prefix: str, start: str, end: str, revision: int, limit: int) -> Past:
        keys, _ = self._keys.page(prefix, end_of(prefix))
        past = {key: self._entries[key] for key in keys}
        for done in reversed(self._log):
            key = done.change.key
            if done.revision <= revision:
                break
            if not key.startswith(prefix):
                continue
            if done.previous is None:
                past.pop(key, None)
            else:
                past[key] = done.previous
        keys, remaining = SortedKeys(past).page(start, end, limit=limit)
        return [past[key] for key in keys], remaining

    def _check(self, key: str, revision: int, value: bytes, guard: Guard | None) -> None:
        self._check_open()
        self._check_size(key, value)
        self._check_revisions(key, revision, guard)

    async def _write(self, key: str, value: bytes | None, ttl: float) -> int:
        revision = self._put(key, value, ttl)
        # As in other backends, watchers see the change before the writer continues.
        await asyncio.sleep(0)
        return revision

    def _put(self, key: str, value: bytes | None, ttl: float) -> int:
        previous = self._entries.get(key)
        self._revision += 1
        if value is None:
            del self._entries[key]
            self._keys.remove(key)
        else:
            created = previous.created if previous else self._revision
            self._entries[key] = Entry(key, value, self._revision, created)
            if previous is None:
                self._keys.add(key)
            if ttl > 0:
                self._expirations.add(key, self._revision, self._clock() + ttl)
        change = Change(key, self._revision, value)
        self._log.append(_Done(self._revision, change, previous))
        self._watchers.publish((change,), self._revision)
        return self._revision

    def _expire(self, key: str, revision: int) -> None:
        if self._stands_at(key) == revision:
            self._put(key, None, 0)
