"""One resource's part of the cache: its items in key order, and recent changes.

A ``CacheEvent`` has the items before and after a change, so that watches with a selector can tell what enters
and leaves. ``stamp`` changes with everything that may alter a listing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

import msgspec

from pilothouse.aio.ring_buffer import Bounds, RingBuffer
from pilothouse.apiserver.storage.items import Derive, Item


class CacheEvent(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One change: ``after`` is None for a removal, ``before`` is None for something new."""

    key: str
    revision: int
    before: Item | None
    after: Item | None


class Collection:
    __slots__ = ("_keys", "bounds", "changed", "derive", "history", "items", "path", "shape", "size", "stamp")

    def __init__(self, path: str, horizon: int, bounds: Bounds) -> None:
        self.path = path
        self.bounds = bounds
        self.items: dict[str, Item] = {}
        self._keys: list[str] = []
        self.history: RingBuffer[CacheEvent] = RingBuffer(horizon, bounds)
        self.changed = horizon
        """The revision of the last change; since then a listing is the same at every revision."""
        self.stamp = 0
        self.shape = 0
        """Moves when an item may look different at the same revision."""
        self.derive: Derive | None = None
        self.size = 0
        """Bytes of all values."""

    def apply(self, key: str, revision: int, value: bytes | None, now: float) -> CacheEvent | None:
        """Apply a change; None if it changes nothing (removal of an absent key)."""
        before = self.items.get(key)
        if value is None:
            if before is None:
                return None
            after = None
            self.size -= len(before.value)
            del self.items[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            after = Item(key, revision, value)
            self.items[key] = after
            self.size += len(value) - (len(before.value) if before is not None else 0)
            if before is None:
                insort(self._keys, key)
        event = CacheEvent(key, revision, before, after)
        # The new value lives on in ``items``; what history costs is the old one.
        self.history.append(revision, event, at=now, weight=len(before.value) if before is not None else 0)
        self.changed = revision
        self.stamp += 1
        return event

    def reset(self, items: Iterable[Item], revision: int) -> None:
        """Start again from a listing, without history."""
        self.items = {item.key: item for item in items}
        self._keys = sorted(self.items)
        self.size = sum(len(item.value) for item in self.items.values())
        self.history = RingBuffer(revision, self.bounds)
        self.changed = revision
        self.shape += 1
        self.stamp += 1

    def reshape(self, derive: Derive | None) -> None:
        """Serve the items by another schema."""
        self.derive = derive
        for item in self.items.values():
            item.forget()
        self.shape += 1
        self.stamp += 1

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """The keys below a prefix, in order; only those that sort after ``after``."""
        keys = self._keys
        # In ASCII "0" follows "/", so this is where the range of a prefix that ends in "/" ends.
        end = bisect_left(keys, prefix[:-1] + "0")
        start = bisect_right(keys, after) if after >= prefix else bisect_left(keys, prefix)
        if start == 0 and end == len(keys):
            return keys.copy()
        return keys[start:end]

    def below(self, prefix: str, after: str = "") -> list[Item]:
        items = self.items
        return [items[key] for key in self.keys(prefix, after)]
