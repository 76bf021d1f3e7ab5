"""The interface between the API server and its storage, a reduced model of etcd.

    revision = await store.create("/registry/pods/t/a", b"...")
    await store.update("/registry/pods/t/a", b"...", revision=revision)
    async with store.watch("/registry/pods/", after=revision) as batches:
        async for batch in batches: ...

Keys are slash-separated text, values bytes. Every write gets the next store-wide *revision* and is durable
when its call returns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A value as it stood after a write."""

    key: str
    value: bytes
    revision: int
    created: int
    """The revision at which the key came into being."""


class EntryPage(msgspec.Struct, frozen=True):
    """Part of a listing, in key order, at one revision."""

    entries: list[Entry]
    revision: int
    """The store's revision that the listing shows; the same for every page of it."""
    remaining: int = 0
    """How many keys follow after this page."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write: a value put (``value``), or a key removed (``value`` is None)."""

    key: str
    revision: int
    value: bytes | None


class Batch(msgspec.Struct, frozen=True):
    """Changes in order of revision, and the mark up to which nothing is missing.

    Without changes it is a progress mark. A revision is never split over two batches.
    """

    changes: tuple[Change, ...]
    revision: int


class Guard(msgspec.Struct, frozen=True):
    """A condition on a second key, tested in the write's own transaction; of several, all have to hold."""

    key: str
    revision: int
    """The revision at which that key must stand; 0 for a key that must not exist."""
    also: Guard | None = None
    """A further condition, on yet another key."""

    def every(self) -> Iterator[Guard]:
        """This condition and the further ones."""
        guard: Guard | None = self
        while guard is not None:
            yield guard
            guard = guard.also


_UNREADABLE = b"\0unreadable: "


def unreadable(reason: str) -> bytes:
    """A placeholder for a value that the store can't decode. It is no JSON."""
    return _UNREADABLE + reason.encode()


def why_unreadable(value: bytes) -> str:
    """The reason, if ``value`` is such a placeholder; else empty."""
    return value[len(_UNREADABLE) :].decode() if value.startswith(_UNREADABLE) else ""


class StoreError(Exception):
    """The base of a store's errors."""


class Conflict(StoreError):
    """The key is not at the revision that the write requires."""

    def __init__(self, key: str, current: Entry | None) -> None:
        super().__init__(f"{key} has changed" if current else f"{key} does not exist")
        self.key = key
        self.current = current


class GuardFailed(StoreError):
    """A guard's key does not have its revision; nothing was written. ``guard`` is the first such."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(f"{guard.key} is not at revision {guard.revision}")
        self.guard = guard


class Compacted(StoreError):
    """The history asked for is gone."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is compacted; the oldest kept is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision asked for has not been reached."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future; the store is at {current}")
        self.revision = revision
        self.current = current


class Unavailable(StoreError):
    """The store can't be reached or can't write. A write may or may not have happened."""


class Damaged(Unavailable):
    """The stored data is damaged; retrying does not help. The message says what does."""


class NoSpace(StoreError):
    """No room for a write, which has not happened. Deletions are still accepted."""


class TooLarge(StoreError):
    """The value is larger than the store takes."""


class Store(Protocol):
    """What every backend offers."""

    @property
    def current(self) -> int | None:
        """The latest revision, where this process is the only writer; None where others write too."""

    async def revision(self) -> int:
        """The latest revision, as of some moment after this call began (a linearizable read)."""

    async def get(self, key: str) -> Entry | None:
        """The latest value of a key (a linearizable read)."""

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> EntryPage:
        """Keys below ``prefix`` in byte order, as of ``revision`` (0: the latest), that sort after the full
        key ``after``.

        At most ``limit`` (0: all). Raises ``Compacted`` or ``FutureRevision``.
        """

    async def create(self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None) -> int:
        """Put a key that must not exist; its revision. Raises ``Conflict`` with what is there."""

    async def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> int:
        """Replace a key that must be at ``revision``; the new revision. Raises ``Conflict`` with what is
        there.

        After ``ttl`` seconds the key is deleted (an ordinary delete to watchers); 0 clears it.
        """

    async def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> int:
        """Remove a key that must be at ``revision``; the deletion's own revision. Raises ``Conflict``."""

    def watch(self, prefix: str, *, after: int) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        """Every change below ``prefix`` with a revision above ``after``: in order, once each, without gaps.

        Progress marks come while nothing below the prefix changes. The iterator raises ``Compacted`` if
        history is gone, ``Unavailable`` if the connection is lost for good. A local backend hands a change to
        watchers before the write's call returns.
        """

    async def progress(self) -> None:
        """Make every open watch send a progress mark soon."""

    async def compact(self, revision: int) -> None:
        """Forget what was overwritten or deleted up to ``revision``; reads below it raise ``Compacted``."""

    async def close(self) -> None:
        """Release everything; calls under way end with ``Unavailable``."""
