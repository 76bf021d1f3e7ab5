"""Expectations: a key is not reconciled again before the caches show what its last reconcile wrote.

    expectations.wrote(key, Pod, 1042)     # or .gone(key, Pod, seen) without a revision
    expectations.missing(key, followed)            # {Pod} until the cache of pods has reached that revision

There is no time-out. A cache that does not advance is broken, and reports that itself; deciding on an old
view would create twice or delete too much. Writes to kinds that are not cached are not expected.
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
        """The revision that it has reached."""
        ...

    def get(self, namespace: str, name: str) -> Object | None: ...


class _Gone(msgspec.Struct, frozen=True):
    """The object is expected to go. A change by another writer does not meet this, nor the ones below."""

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
    """The writes that the caches do not show yet, for each key."""

    def __init__(self) -> None:
        self._revisions: dict[ReconcileKey, dict[KindName, int]] = {}
        self._changes: dict[ReconcileKey, list[_Gone]] = {}

    def wrote(self, key: ReconcileKey, noun: KindName, revision: int) -> None:
        """The reconcile of a key wrote an object of a kind at this revision."""
        revisions = self._revisions.setdefault(key, {})
        revisions[noun] = max(revision, revisions.get(noun, 0))

    def gone(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The reconcile of a key deleted an object, and the server returned no revision."""
        self._changes.setdefault(key, []).append(_Gone(noun, seen))

    def evicted(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The reconcile of a key evicted a pod: it is being deleted, or gone."""
        self._changes.setdefault(key, []).append(_Evicted(noun, seen))

    def bound(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The reconcile of a key bound a pod to a node."""
        self._changes.setdefault(key, []).append(_Bound(noun, seen))

    def missing(self, key: ReconcileKey, followed: Mapping[KindName, FollowedCache]) -> frozenset[KindName]:
        """The kinds whose caches lack a write of this key; if there is none, the key is forgotten."""
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
        """Expect nothing for a key."""
        self._revisions.pop(key, None)
        self._changes.pop(key, None)

    def clear(self) -> None:
        """Expect nothing for any key."""
        self._revisions.clear()
        self._changes.clear()
