"""A store that encrypts values below some prefixes.

    store = EncryptedStore(MemoryStore(), EncryptionKeys.read(...))
    await store.create("/registry/secrets/t/a", b"{...}")     # sealed on disk, plain above this store

Plain values are served as they are and sealed when next written, or by ``reseal``. A value that can't be
opened is replaced by ``interface.unreadable`` with the reason, which is no JSON, so that one bad value does
not break lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from pilothouse.pki.encryption_keys import EncryptionKeys, Unopenable, key_of
from pilothouse.store.interface import Batch, Change, Conflict, Entry, EntryPage, Guard, Store, unreadable
from pilothouse.store.mapped_watch import MappedWatch
from pilothouse.store.paging import pages
from pilothouse.store.wrapped_store import WrappedStore

SECRETS = ("/registry/secrets/",)
"""What is sealed by default."""


class KeyUsage(msgspec.Struct, frozen=True):
    """How the covered values are stored."""

    plain: int
    sealed: dict[str, int]
    """How many by the name of their key."""
    missing: tuple[str, ...]
    """The names among them of keys that are not here."""


class Reencrypted(msgspec.Struct, frozen=True):
    """The progress of a rewrite, and at the end its result."""

    seen: int = 0
    rewritten: int = 0
    failed: tuple[str, ...] = ()
    """Why, for each value that could not be opened."""


class EncryptedStore(WrappedStore):
    def __init__(self, inner: Store, keys: EncryptionKeys, covers: Sequence[str] = SECRETS) -> None:
        super().__init__(inner)
        self._keys = keys
        self._covers = tuple(covers)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the keys, the one that seals first."""
        return self._keys.names

    async def get(self, key: str) -> Entry | None:
        entry = await self.inner.get(key)
        return entry if entry is None else self._opened(entry)

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> EntryPage:
        page = await self.inner.list(prefix, revision=revision, limit=limit, after=after)
        if not self._touches(prefix):
            return page
        return EntryPage([self._opened(entry) for entry in page.entries], page.revision, page.remaining)

    async def create(self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None) -> int:
        try:
            return await self.inner.create(key, self.seal(key, value), ttl=ttl, guard=guard)
        except Conflict as conflict:
            raise self._explained(conflict) from None

    async def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> int:
        try:
            return await self.inner.update(
                key, self.seal(key, value), revision=revision, ttl=ttl, guard=guard
            )
        except Conflict as conflict:
            raise self._explained(conflict) from None

    async def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> int:
        try:
            return await self.inner.delete(key, revision=revision, guard=guard)
        except Conflict as conflict:
            raise self._explained(conflict) from None

    def watch(self, prefix: str, *, after: int) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        inner = self.inner.watch(prefix, after=after)
        return MappedWatch(inner, self._opened_batch) if self._touches(prefix) else inner

    async def census(self) -> KeyUsage:
        found: Counter[str | None] = Counter()
        for prefix in self._covers:
            async for page in pages(self.inner, prefix):
                found.update(key_of(entry.value) for entry in page.entries)
        plain = found.pop(None, 0)
        sealed = {name: count for name, count in sorted(found.items()) if name is not None}
        return KeyUsage(plain, sealed, tuple(name for name in sealed if name not in self._keys.names))

    async def reseal(self) -> AsyncGenerator[Reencrypted, None]:
        """Seal every value with the first key, reporting progress.

        Each is an ordinary write with a new revision. A value that changes meanwhile is checked again, as its
        writer may have another first key.
        """
        seen = rewritten = 0
        failed: list[str] = []
        for prefix in self._covers:
            async for page in pages(self.inner, prefix):
                for entry in page.entries:
                    try:
                        rewritten += await self._reseal(entry)
                    except Unopenable as problem:
                        failed.append(f"{entry.key}: {problem}")
                seen += len(page.entries)
                yield Reencrypted(seen, rewritten, tuple(failed))
        if not seen:
            yield Reencrypted()

    async def _reseal(self, entry: Entry) -> bool:
        current: Entry | None = entry
        while current is not None and self._keys.is_stale(current.value):
            value = self._keys.seal(current.key, self._keys.open(current.key, current.value))
            try:
                await self.inner.update(current.key, value, revision=current.revision)
            except Conflict as conflict:
                current = conflict.current
                continue
            return True
        return False

    def _opened_batch(self, batch: Batch) -> Batch:
        covers = self._covers
        if not any(change.key.startswith(covers) for change in batch.changes):
            return batch
        return Batch(tuple(map(self._opened_change, batch.changes)), batch.revision)

    def _opened_change(self, change: Change) -> Change:
        if not change.key.startswith(self._covers):
            return change
        value = None if change.value is None else self._open(change.key, change.value)
        return Change(change.key, change.revision, value)

    def _opened(self, entry: Entry) -> Entry:
        if not entry.key.startswith(self._covers):
            return entry
        return Entry(entry.key, self._open(entry.key, entry.value), entry.revision, entry.created)

    def _open(self, key: str, kept: bytes) -> bytes:
        try:
            return self._keys.open(key, kept)
        except Unopenable as problem:
            return unreadable(f"{key} can't be read: {problem}")

    def seal(self, key: str, value: bytes) -> bytes:
        """A value as this store would store it."""
        return self._keys.seal(key, value) if key.startswith(self._covers) else value

    def _explained(self, conflict: Conflict) -> Conflict:
        current = conflict.current
        return Conflict(conflict.key, None if current is None else self._opened(current))

    def _touches(self, prefix: str) -> bool:
        """Whether anything below ``prefix`` may be covered."""
        return any(prefix.startswith(each) or each.startswith(prefix) for each in self._covers)
