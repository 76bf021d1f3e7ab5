"""Fills an empty store from a backup, with revisions above the old ones.

    await restore_entries(etcd, entries, prefixes, base=51234, lifetime=...)
    store = await continued(etcd)         # what a server then works on

New revisions are above any that the lost store can have reached, so old watches list again and stale writes
conflict. ``MARK`` records the offset in the store, and that the restore is complete: no server uses it
before. (SQLite needs no offset; see ``sqlite_restore``.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import msgspec

from pilothouse.store.backup_file import Saved
from pilothouse.store.interface import Conflict, Store, StoreError
from pilothouse.store.paging import pages
from pilothouse.store.revision_offset import RESTORE_LEAP, RevisionOffsetStore

T = TypeVar("T")

MARK = "/pilothouse/restored"
_TOGETHER = 64
"""Writes under way at a time."""

Lifetime = Callable[[Saved], float]
"""The seconds after which a key expires; 0 is never."""


class NotEmpty(StoreError):
    """The target of a restore is not empty."""


class _Mark(msgspec.Struct, frozen=True):
    shift: int
    complete: bool = False


async def restore_entries(
    store: Store, entries: Iterable[Saved], prefixes: Iterable[str], *, base: int, lifetime: Lifetime
) -> int:
    """Write everything into a store that is empty below ``prefixes``; how many keys. Raises ``NotEmpty``."""
    mark = _Mark(base + RESTORE_LEAP)
    for prefix in prefixes:
        page = await store.list(prefix, limit=1)
        if page.entries:
            raise NotEmpty(
                f"the store is not empty: it has {page.entries[0].key} and {page.remaining} other keys below "
                f"{prefix}; a backup is restored into an empty one"
            )
    try:
        revision = await store.create(MARK, msgspec.json.encode(mark))
    except Conflict:
        raise NotEmpty(f"the store is not empty: {MARK} has just come into being") from None
    count = 0
    for group in in_groups(entries, _TOGETHER):
        writes = [store.create(saved.key, saved.value, ttl=lifetime(saved)) for saved in group]
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        count += len(group)
    await store.update(MARK, msgspec.json.encode(_Mark(mark.shift, complete=True)), revision=revision)
    return count


async def continued(store: Store) -> Store:
    """The restored store, for use. Raises ``StoreError`` while it is incomplete."""
    found = await store.get(MARK)
    if found is None:
        return store
    try:
        mark = msgspec.json.decode(found.value, type=_Mark)
    except msgspec.DecodeError as problem:
        raise StoreError(f"{MARK} in the store can't be read: {problem}") from None
    if not mark.complete:
        raise StoreError(
            f"a backup is being restored into this store, or that was interrupted (its {MARK} says so); "
            "wait for it, or remove everything and restore again"
        )
    return RevisionOffsetStore(store, mark.shift)


async def differences(store: Store, entries: Iterable[Saved], prefixes: Iterable[str]) -> list[str]:
    """Keys that differ between store and backup, or are in only one; at most a few are named."""
    expected = iter(entries)
    wrong: list[str] = []
    saved = next(expected, None)
    for prefix in sorted(prefixes):
        async for page in pages(store, prefix):
            for entry in page.entries:
                if entry.key == MARK:
                    continue
                while saved is not None and saved.key < entry.key:
                    wrong.append(f"{saved.key} is missing")
                    saved = next(expected, None)
                if saved is None or saved.key != entry.key:
                    wrong.append(f"{entry.key} should not be there")
                    continue
                if saved.value != entry.value:
                    wrong.append(f"{entry.key} has another value")
                saved = next(expected, None)
    while saved is not None:
        wrong.append(f"{saved.key} is missing")
        saved = next(expected, None)
    return wrong


def in_groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of ``size``; the last may be shorter."""
    rest = iter(items)
    while group := list(islice(rest, size)):
        yield group
