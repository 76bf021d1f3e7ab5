"""A store whose revisions are those of another one plus a fixed offset.

    store = RevisionOffsetStore(etcd, by=1_000_000_051_234)
    await store.create("/a", b"1")          # 1000000051236, where etcd says 2

After a restore into a new etcd, which counts from one, a watch from a remembered revision would wait in
silence. With the offset all new revisions are above the old ones, which are ``Compacted``, so clients list
again. The offset is kept in the store (``restore``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from pilothouse.store.interface import (
    Batch,
    Change,
    Compacted,
    Conflict,
    Entry,
    EntryPage,
    FutureRevision,
    Guard,
    GuardFailed,
    Store,
    StoreError,
)
from pilothouse.store.mapped_watch import LostWatch, MappedWatch
from pilothouse.store.wrapped_store import WrappedStore

RESTORE_LEAP = 10**12
"""More than a store writes in a year; a few thousand restores fit into a float's integers."""

_FIRST = 1
"""Where etcd begins to count."""


class RevisionOffsetStore(WrappedStore):
    def __init__(self, inner: Store, by: int) -> None:
        super().__init__(inner)
        self._by = by

    @property
    def current(self) -> int | None:
        current = self.inner.current
        return None if current is None else current + self._by

    async def revision(self) -> int:
        return await self.inner.revision() + self._by

    async def get(self, key: str) -> Entry | None:
        entry = await self.inner.get(key)
        return None if entry is None else self._up(entry)

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> EntryPage:
        kept = self._kept(revision) if revision else 0
        try:
            page = await self.inner.list(prefix, revision=kept, limit=limit, after=after)
        except StoreError as error:
            raise self._explained(error) from None
        return EntryPage(
            [self._up(entry) for entry in page.entries], page.revision + self._by, page.remaining
        )

    async def create(self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None) -> int:
        try:
            return await self.inner.create(key, value, ttl=ttl, guard=self._down(guard)) + self._by
        except StoreError as error:
            raise self._explained(error) from None

    async def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> int:
        try:
            written = await self.inner.update(
                key, value, revision=self._stands(revision), ttl=ttl, guard=self._down(guard)
            )
        except StoreError as error:
            raise self._explained(error) from None
        return written + self._by

    async def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> int:
        try:
            removed = await self.inner.delete(key, revision=self._stands(revision), guard=self._down(guard))
        except StoreError as error:
            raise self._explained(error) from None
        return removed + self._by

    def watch(self, prefix: str, *, after: int) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        try:
            kept = self._kept(after)
        except Compacted as gone:
            return LostWatch(gone)
        return MappedWatch(self.inner.watch(prefix, after=kept), self._up_batch, self._explained)

    async def compact(self, revision: int) -> None:
        if revision <= self._by:
            return
        try:
            await self.inner.compact(revision - self._by)
        except StoreError as error:
            raise self._explained(error) from None

    def _kept(self, revision: int) -> int:
        """A revision whose history is asked for."""
        if revision < self._by + _FIRST:
            raise Compacted(revision, self._by + _FIRST)
        return revision - self._by

    def _stands(self, revision: int) -> int:
        """The inner revision of a key; one from before the restore matches none."""
        return revision - self._by if revision > self._by else -1

    def _down(self, guard: Guard | None) -> Guard | None:
        if guard is None:
            return None
        revision = self._stands(guard.revision) if guard.revision else 0
        return Guard(guard.key, revision, self._down(guard.also))

    def _up(self, entry: Entry) -> Entry:
        return Entry(entry.key, entry.value, entry.revision + self._by, entry.created + self._by)

    def _up_batch(self, batch: Batch) -> Batch:
        by = self._by
        changes = tuple(Change(each.key, each.revision + by, each.value) for each in batch.changes)
        return Batch(changes, batch.revision + by)

    def _explained(self, error: StoreError) -> StoreError:
        by = self._by
        if isinstance(error, Conflict):
            return Conflict(error.key, None if error.current is None else self._up(error.current))
        if isinstance(error, GuardFailed):
            guard = error.guard
            return GuardFailed(
                Guard(guard.key, guard.revision + by if guard.revision > 0 else guard.revision)
            )
        if isinstance(error, Compacted):
            return Compacted(error.revision + by, error.oldest + by)
        if isinstance(error, FutureRevision):
            return FutureRevision(error.revision + by, error.current + by)
        return error
