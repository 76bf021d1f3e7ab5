"""Read your writes: a key is not decided about again before the caches have seen what its last decision wrote.

    expectations.wrote(key, Pod, 1042)             # or .gone(key, Pod, seen) where no revision is told
    expectations.missing(key, followed)            # {Pod} until the cache of pods has got as far

There is no time-out. A cache that does not get on is a cache that is broken, and says so itself; deciding on an old view
would create twice or delete too much. What a decision wrote of kinds that nobody follows is not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.runtime.controller import ReconcileKey


class FollowedCache(Protocol):
    """A cache of one kind that follows the server."""

    @property
    def revision(self) -> int:
        """How far it has got."""
        ...

    def get(self, namespace: str, name: str) -> Object | None: ...


class _Gone(msgspec.Struct, frozen=True):
    """That another has changed the object meanwhile is not what is waited for, here and below."""

    noun: KindName
    seen: Object

    def met(self, cache: FollowedCache) -> bool:
        found = cache.get(self.seen.namespace, self.seen.name)
        return found is None or found.uid != self.seen.uid or self.shows(found)

    def shows(self, found: Object) -> bool:
        return False


class _Evicted(_Gone, frozen=True):
    def shows(self, found: Object) -> bool:
        return found.deleting


class _Bound(_Gone, frozen=True):
    def shows(self, found: Object) -> bool:
        return bool(found.spec.get("nodeName"))


class Expectations:
    """What the caches have yet to see, for each key."""

    def __init__(self) -> None:
        self._revisions: dict[ReconcileKey, dict[KindName, int]] = {}
        self._changes: dict[ReconcileKey, list[_Gone]] = {}

    def wrote(self, key: ReconcileKey, noun: KindName, revision: int) -> None:
        """The decision about a key changed something of a kind at this revision."""
        revisions = self._revisions.setdefault(key, {})
        revisions[noun] = max(revision, revisions.get(noun, 0))

    def gone(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The decision about a key had an object removed, and the server did not say at which revision."""
        self._changes.setdefault(key, []).append(_Gone(noun, seen))

    def evicted(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The decision about a key had a pod evicted: it goes, or is gone."""
        self._changes.setdefault(key, []).append(_Evicted(noun, seen))

    def bound(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The decision about a key had a pod assigned to a node."""
        self._changes.setdefault(key, []).append(_Bound(noun, seen))

    def missing(self, key: ReconcileKey, followed: Mapping[KindName, FollowedCache]) -> frozenset[KindName]:
        """The kinds whose caches have yet to see something of this key's; if there is none, it is forgotten."""
        missing: set[KindName] = set()
        revisions = self._revisions.get(key)
        if revisions:
            missing.update(
                noun
                for noun, revision in revisions.items()
                if noun in followed and followed[noun].revision < revision
            )
        changes = self._changes.get(key)
        if changes:
            missing.update(
                one.noun for one in changes if one.noun in followed and not one.met(followed[one.noun])
            )
        if not missing:
            self.forget(key)
        return frozenset(missing)

    def forget(self, key: ReconcileKey) -> None:
        """Expect nothing any more."""
        self._revisions.pop(key, None)
        self._changes.pop(key, None)

    def clear(self) -> None:
        """Expect nothing of any key."""
        self._revisions.clear()
        self._changes.clear()
