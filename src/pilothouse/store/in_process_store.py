"""What stores in this process share: the latest values in memory, reads of them, conditions of writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from pilothouse.store.expirations import Expirations
from pilothouse.store.in_process_watch import StoreWatchers
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
    TooLarge,
    Unavailable,
)
from pilothouse.store.keys import SortedKeys, end_of, start_of

Past = tuple[list[Entry], int]
"""Entries, and how many follow."""


class InProcessStore(ABC):
    def __init__(
        self,
        entries: dict[str, Entry],
        *,
        revision: int,
        compacted: int,
        clock: Callable[[], float],
        largest: int,
        progress_every: float,
    ) -> None:
        self._entries = entries
        self._keys = SortedKeys(entries)
        self._revision = revision
        self._compacted = compacted
        self._clock = clock
        self._largest = largest
        self._closed = False
        self._watchers = StoreWatchers(self, revision=revision, progress_every=progress_every)
        self._expirations = Expirations(self._expire, clock=clock)

    @property
    def current(self) -> int:
        return self._revision

    async def revision(self) -> int:
        self._check_open()
        return self._revision

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        return self._entries.get(key)

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> EntryPage:
        self._check_open()
        self._check_reached(revision)
        start, end = start_of(prefix, after), end_of(prefix)
        if revision in (0, self._revision):
            keys, remaining = self._keys.page(start, end, limit=limit)
            entries = self._entries
            return EntryPage([entries[key] for key in keys], self._revision, remaining)
        self._check_kept(revision)
        found, remaining = await self._past(prefix, start, end, revision, limit)
        # Compaction moves its mark before it removes anything: if the mark is below, all was read.
        self._check_kept(revision)
        return EntryPage(found, revision, remaining)

    def watch(self, prefix: str, *, after: int) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        return self._watchers.open(prefix, after)

    async def progress(self) -> None:
        self._check_open()
        self._watchers.mark()

    @abstractmethod
    async def changes(self, prefix: str, after: int, upto: int, limit: int) -> tuple[Sequence[Change], int]:
        """Past changes, for watchers that are behind; see ``ChangeHistory``."""

    @abstractmethod
    async def _past(self, prefix: str, start: str, end: str, revision: int, limit: int) -> Past:
        """Keys below ``prefix`` in ``start`` ≤ key < ``end`` at a past revision."""

    @abstractmethod
    def _expire(self, key: str, revision: int) -> None:
        """Delete a key that has expired, if it still is at ``revision``."""

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    def _check_reached(self, revision: int) -> None:
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)

    def _check_kept(self, revision: int) -> None:
        if revision < self._compacted:
            raise Compacted(revision, self._compacted)

    def _check_size(self, key: str, value: bytes) -> None:
        if len(value) > self._largest:
            raise TooLarge(
                f"{key}: {len(value)} bytes are more than the {self._largest} that the store takes"
            )

    def _check_revisions(self, key: str, revision: int, guard: Guard | None) -> None:
        """Raise unless the key is at ``revision`` (0: absent) and every guard holds."""
        for each in guard.every() if guard is not None else ():
            if self._stands_at(each.key) != each.revision:
                raise GuardFailed(each)
        if self._stands_at(key) != revision:
            raise Conflict(key, self._entries.get(key))

    def _stands_at(self, key: str) -> int:
        entry = self._entries.get(key)
        return entry.revision if entry is not None else 0
