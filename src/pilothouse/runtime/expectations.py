"""Expectations: a key is not reconciled again before the caches show what its last reconcile wrote.

    expectations.wrote(key, Pod, 1042)     # or .gone(key, Pod, seen) without a revision
    expectations.missing(key, followed)    # {Pod} until the cache of pods has reached that revision

There is no time-out: a cache that does not advance reports that itself, and deciding on an old view would
create twice or delete too much. Writes to kinds that are not cached are not expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


class _Change(msgspec.Struct, frozen=True):
    """An object is expected to go or to show a change; a change by another writer does not meet this."""

    noun: KindName
    seen: Object
    is_shown_by: Callable[[Object], bool]

    def met(self, cache: FollowedCache) -> bool:
        found = cache.get(self.seen.namespace, self.seen.name)
        return found is None or found.uid != self.seen.uid or self.is_shown_by(found)


class Expectations:
    """The writes that the caches do not show yet, for each key."""

    def __init__(self) -> None:
        self._revisions: dict[ReconcileKey, dict[KindName, int]] = {}
        self._changes: dict[ReconcileKey, list[_Change]] = {}

    def wrote(self, key: ReconcileKey, noun: KindName, revision: int) -> None:
        """The reconcile of a key wrote an object of a kind at this revision."""
        revisions = self._revisions.setdefault(key, {})
        revisions[noun] = max(revision, revisions.get(noun, 0))

    def gone(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The reconcile of a key deleted an object, and the server returned no revision."""
        self._expect(key, _Change(noun, seen, lambda found: False))

    def evicted(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The reconcile of a key evicted a pod: it is being deleted, or gone."""
        self._expect(key, _Change(noun, seen, lambda found: found.deleting))

    def bound(self, key: ReconcileKey, noun: KindName, seen: Object) -> None:
        """The reconcile of a key bound a pod to a node."""
        self._expect(key, _Change(noun, seen, lambda found: bool(found.spec.get("nodeName"))))

    def _expect(self, key: ReconcileKey, change: _Change) -> None:
        self._changes.setdefault(key, []).append(change)

    def missing(self, key: ReconcileKey, followed: Mapping[KindName, FollowedCache]) -> frozenset[KindName]:
        """The kinds whose caches lack a write of this key; if there is none, the key is forgotten."""
        missing = {
            noun
            for noun, revision in self._revisions.get(key, {}).items()
            if noun in followed and followed[noun].revision < revision
        } | {
            change.noun
            for change in self._changes.get(key, ())
            if change.noun in followed and not change.met(followed[change.noun])
        }
        if not missing:
            self.forget(key)
        return frozenset(missing)

    def forget(self, key: ReconcileKey) -> None:
        self._revisions.pop(key, None)
        self._changes.pop(key, None)

    def clear(self) -> None:
        self._revisions.clear()
        self._changes.clear()
