"""Single objects in the store; each write is a compare-and-swap with retries.

    outcome = await objects.amend(served, "t", "a", lambda live: {**live, "spec": {...}})

``amend`` is kube-apiserver's ``GuaranteedUpdate``: the change is a function of the live object, called again
after a conflict. It raises to refuse, returns the object to store, or an ``ObjectRemoval``. A change that
leaves the stored bytes as they are writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from pilothouse.aio.keyed_lock import KeyedLocks
from pilothouse.apiserver.discovery.catalog import ServedVersion
from pilothouse.apiserver.server.messages import Request
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.leadership_fence import WriteFence
from pilothouse.meta import errors
from pilothouse.meta.kind import Object
from pilothouse.store.interface import (
    Conflict,
    Damaged,
    Entry,
    Guard,
    GuardFailed,
    NoSpace,
    Store,
    StoreError,
    TooLarge,
    Unavailable,
)

_PATIENCE = 64


class ObjectRemoval(msgspec.Struct, frozen=True):
    """The change that removes an object, and its last state (None: as it is stored)."""

    last: Object | None = None


REMOVE: Final = ObjectRemoval()
Change = Callable[[Object], Object | ObjectRemoval]


class StoredValue(Protocol):
    """The value of a key, in a cache or in the store."""

    @property
    def value(self) -> bytes: ...

    @property
    def revision(self) -> int: ...


class CachedValues(Protocol):
    """A cache that may be a little behind."""

    @property
    def revision(self) -> int:
        """The revision up to which nothing is missing."""

    def peek(self, key: str) -> StoredValue | None:
        """What the cache holds for a key."""


class WriteOutcome(msgspec.Struct, frozen=True):
    """A write's result: the stored value and its revision (0 where a dry run stored nothing)."""

    value: bytes
    revision: int
    changed: bool = True
    removed: bool = False


class ObjectStorage:
    def __init__(self, store: Store, guesses: CachedValues, large: LargeWrites | None = None) -> None:
        self._store = store
        self._guesses = guesses
        self._large = large or LargeWrites(threads=False)
        # Writers of one object in this process take turns: only other processes can make an attempt fail.
        self._turns = KeyedLocks()

    async def find(self, key: str) -> StoredValue | None:
        try:
            return await self._store.get(key)
        except StoreError as problem:
            raise _status_error(problem) from None

    async def glance(self, key: str) -> StoredValue | None:
        """A value of the key that may be slightly old; None only if the key is certainly absent."""
        guess, certain = self._at_hand(key)
        return guess if certain or guess is not None else await self.find(key)

    def _at_hand(self, key: str) -> tuple[StoredValue | None, bool]:
        """The cached value of a key, and whether it is the latest, which is known only if no other process
        writes."""
        current = self._store.current
        if current is None:
            return self._guesses.peek(key), False
        return (self._guesses.peek(key), True) if self._guesses.revision == current else (None, False)

    async def count(self, prefix: str) -> int:
        try:
            page = await self._store.list(prefix, limit=1)
        except StoreError as problem:
            raise _status_error(problem) from None
        return len(page.entries) + page.remaining

    async def create(
        self,
        served: ServedVersion,
        key: str,
        obj: Object,
        *,
        fence: WriteFence | None = None,
        dry_run: bool = False,
    ) -> WriteOutcome:
        """Store a new object. Raises the store's ``Conflict`` when the key is taken."""
        value = codec.encode(codec.convert(served.resource, obj, served.resource.storage))
        guard = await self._guard(fence) if fence is not None else None
        if dry_run:
            current = await self.find(key)
            if current is not None:
                raise Conflict(key, Entry(key, current.value, current.revision, 0))
            return WriteOutcome(value, 0)
        ttl = _time_to_live(served, obj)
        while True:
            try:
                return WriteOutcome(value, await self._store.create(key, value, ttl=ttl, guard=guard))
            except GuardFailed:
                guard = await self._guard(fence, latest=True)
            except StoreError as problem:
                raise _status_error(problem) from None

    async def amend(
        self,
        served: ServedVersion,
        namespace: str,
        name: str,
        change: Change,
        *,
        fence: WriteFence | None = None,
        dry_run: bool = False,
        request: Request | None = None,
    ) -> WriteOutcome:
        """Change an object that exists, in the version of ``served``; 404 if it doesn't.

        With ``request`` the change of a large object is made in a thread; see ``large_writes``.
        """
        key = served.key(namespace, name)
        async with self._turns.of(key):
            return await self._amend(served, name, key, change, fence, dry_run, request)

    async def _amend(
        self,
        served: ServedVersion,
        name: str,
        key: str,
        change: Change,
        fence: WriteFence | None,
        dry_run: bool,
        request: Request | None,
    ) -> WriteOutcome:
        guard = await self._guard(fence) if fence is not None else None
        # A cached value saves a read; the store refuses a write that is based on an old one.
        live, certain = self._at_hand(key)
        if not certain and (live is None or dry_run):
            live, certain = await self.find(key), True
        for _ in range(_PATIENCE):
            if live is None:
                raise errors.not_found(served.kind.plural, served.kind.group, name)
            try:
                outcome = await self._attempt(served, key, live, change, guard, dry_run, request)
                if certain or outcome.changed:
                    return outcome
                live = await self.find(key)
            except errors.StatusError:
                # Refused because of a cached value; the stored one may differ.
                if certain:
                    raise
                live = await self.find(key)
            except GuardFailed:
                # The lease was renewed, or has another holder; only the latter ends the write.
                guard = await self._guard(fence, latest=True)
                continue
            except Conflict as conflict:
                live = conflict.current
            except StoreError as problem:
                # It may have been written all the same: a retry would be judged by its own first outcome.
                raise _status_error(problem) from None
            certain = True
        raise errors.conflict(
            served.kind.plural, served.kind.group, name, "too many writers at once; please try again"
        )

    async def _guard(self, fence: WriteFence | None, *, latest: bool = False) -> Guard | None:
        """The condition of a fenced write; 409 if its leadership has ended."""
        if fence is None:
            return None
        lease = await (self.find(fence.key) if latest else self.glance(fence.key))
        if lease is not None and fence.holds(lease.value):
            return Guard(fence.key, lease.revision)
        if not latest and self._store.current is None:
            return await self._guard(fence, latest=True)
        raise fence.broken()

    async def _attempt(
        self,
        served: ServedVersion,
        key: str,
        live: StoredValue,
        change: Change,
        guard: Guard | None,
        dry_run: bool,
        request: Request | None,
    ) -> WriteOutcome:
        """One attempt on one state of the object. Raises the store's own errors."""
        if request is None:
            result, value = _changed(served, live, change)
        else:
            result, value = await self._large.run(
                request, lambda: _changed(served, live, change), len(live.value)
            )
        if isinstance(result, ObjectRemoval):
            if dry_run:
                return WriteOutcome(value, live.revision, removed=True)
            revision = await self._store.delete(key, revision=live.revision, guard=guard)
            return WriteOutcome(value, revision, removed=True)
        if value == live.value:
            return WriteOutcome(value, live.revision, changed=False)
        if dry_run:
            return WriteOutcome(value, live.revision)
        ttl = _time_to_live(served, result)
        revision = await self._store.update(key, value, revision=live.revision, ttl=ttl, guard=guard)
        return WriteOutcome(value, revision)


def _changed(
    served: ServedVersion, live: StoredValue, change: Change
) -> tuple[Object | ObjectRemoval, bytes]:
    """The result of a change to the stored object, and its bytes."""
    resource = served.resource
    stored = codec.decode(live.value, live.revision)
    if resource.refresh is not None:
        resource.refresh(stored)
    result = change(codec.convert(resource, stored, served.kind.version))
    last = result.last if isinstance(result, ObjectRemoval) else result
    if last is None:
        return result, live.value
    return result, codec.encode(codec.convert(resource, last, resource.storage))


def _time_to_live(served: ServedVersion, obj: Object) -> float:
    rule = served.kind.time_to_live
    return rule(obj) if rule is not None else 0


def _status_error(problem: StoreError) -> Exception:
    """The Status of a store's failure. ``Conflict`` and ``GuardFailed`` are for the caller."""
    match problem:
        case Conflict() | GuardFailed():
            return problem
        case TooLarge():
            return errors.too_large(str(problem))
        case NoSpace():
            return errors.insufficient_storage(str(problem))
        case Damaged():
            return errors.internal(str(problem))
        case Unavailable():
            return errors.unavailable(f"the store does not answer: {problem}")
    return errors.internal(str(problem))
