"""The read-only view of cached objects, and the time, that one decision gets.

    world = Snapshot({Pod: pods, Node: nodes}, now=clock.now())
    world.find(Pod, "default", "web-0")
    world.where(Pod, "spec.nodeName", "n1")
    world.silence(Lease, "x", "n1", since)  # seconds without an update, in which one would have arrived
    world.read                              # the objects that were read, for the Decision

Reading a kind that the controller has not declared raises ``LookupError``: its changes would not trigger it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree
from pilothouse.client.object_cache import CREATED_HOUR, LACKING, OWNER, OWNERS, values
from pilothouse.client.watch_freshness import EVERYTHING, WatchFreshness
from pilothouse.meta.selectors import LabelSelector

MOST_READ = 100
"""How many of the objects read a Decision names."""


class KindView(Protocol):
    """The objects of one kind."""

    @property
    def heard(self) -> WatchFreshness:
        """The period for which every change is known to have arrived."""
        ...

    def get(self, namespace: str, name: str) -> Object | None: ...

    def list(self, namespace: str = "") -> Iterable[Object]:
        """All, or a namespace's."""
        ...

    def by(self, index: str, value: str) -> Iterable[Object]:
        """The objects that an index has under this value: see ``client.object_cache``."""
        ...


class ObjectRead(msgspec.Struct, frozen=True):
    """An object that was read, and its version; empty if it did not exist."""

    noun: KindName
    namespace: str
    name: str
    resource_version: str = ""


class Snapshot:
    """The kinds that a controller declares, at one moment."""

    def __init__(self, views: Mapping[KindName, KindView], *, now: float, readings: object = None) -> None:
        self._views = views
        self._read: dict[tuple[KindName, str, str], ObjectRead] = {}
        self.now = now
        """Seconds since 1970."""
        self.readings = readings
        """What the controller's watch has measured: see ``sampled_watch``; None without one."""

    @property
    def nouns(self) -> tuple[KindName, ...]:
        """The kinds that can be read."""
        return tuple(self._views)

    @property
    def read(self) -> tuple[ObjectRead, ...]:
        """The objects read so far, in the order of the first read."""
        return tuple(self._read.values())

    def find(self, noun: KindName, namespace: str, name: str) -> Object | None:
        found = self._view(noun).get(namespace if noun.namespaced else "", name)
        self._note(noun, namespace, name, found)
        return found

    def all(self, noun: KindName, namespace: str = "", selector: LabelSelector | None = None) -> list[Object]:
        """The objects of a kind, of a namespace and a selector if given, by namespace and name."""
        found = self._view(noun).list(namespace)
        if selector is not None:
            found = (one for one in found if selector.matches(one.labels))
        return self._noted(noun, found)

    def owned(self, noun: KindName, owner: Object) -> list[Object]:
        """The objects of a kind that this owner controls, by uid."""
        found = self._view(noun).by(OWNER, owner.uid)
        return self._noted(noun, (one for one in found if _may_own(owner, one)))

    def orphans(self, noun: KindName, namespace: str) -> list[Object]:
        """The objects of a kind in a namespace that have no controller."""
        found = self._view(noun).by(OWNER, "")
        return self._noted(noun, (one for one in found if one.namespace == namespace))

    def dependents(self, owner: Object) -> list[Object]:
        """The objects of any kind that name this object as an owner, by uid."""
        found = ((noun, self._view(noun).by(OWNERS, owner.uid)) for noun in self.nouns)
        return [
            one
            for noun, objects in found
            for one in self._noted(noun, (each for each in objects if _may_own(owner, each)))
        ]

    def where(self, noun: KindName, path: str, value: str) -> list[Object]:
        """The objects of a kind whose field at a dotted path has this value."""
        return self._noted(noun, self._view(noun).by(path, value))

    def lacking(self, noun: KindName, path: str) -> list[Object]:
        """The objects of a kind that have no value at a dotted path."""
        return self._noted(noun, self._view(noun).by(f"{LACKING}{path}", ""))

    def created_between(self, noun: KindName, begin: float, end: float) -> list[Object]:
        """The objects of a kind that were created from one time to the other."""
        hours = range(int(begin // 3600), int(end // 3600) + 1)
        found = (one for hour in hours for one in self._view(noun).by(CREATED_HOUR, str(hour)))
        return self._noted(noun, (one for one in found if begin <= one.created <= end))

    def silence(self, noun: KindName, namespace: str, name: str, since: float) -> float:
        """Seconds without a new version of an object, not counting time in which the watch was interrupted or
        silent. For an object that does not exist, they count from ``since``."""
        found, heard = self.find(noun, namespace, name), self._view(noun).heard
        last = found.arrived if found is not None else since
        return max(0.0, min(self.now, heard.until) - max(last, heard.since))

    def _view(self, noun: KindName) -> KindView:
        view = self._views.get(noun)
        if view is None:
            raise LookupError(f"{noun.kind} is not among the kinds that this controller declares")
        return view

    def _noted(self, noun: KindName, found: Iterable[Object]) -> list[Object]:
        objects = sorted(found, key=lambda one: (one.namespace, one.name))
        for one in objects:
            self._note(noun, one.namespace, one.name, one)
        return objects

    def _note(self, noun: KindName, namespace: str, name: str, found: Object | None) -> None:
        key = (noun, namespace, name)
        if key not in self._read and len(self._read) < MOST_READ:
            version = found.resource_version if found is not None else ""
            self._read[key] = ObjectRead(noun, namespace, name, version)


class StaticView:
    """A view of fixed objects, for tests and what-if runs."""

    def __init__(self, trees: Iterable[Tree | Object]) -> None:
        objects = (tree if isinstance(tree, Object) else Object.of(tree) for tree in trees)
        self._objects = {(one.namespace, one.name): one for one in objects}

    @property
    def heard(self) -> WatchFreshness:
        return EVERYTHING

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get((namespace, name))

    def list(self, namespace: str = "") -> Iterator[Object]:
        return (one for one in self._objects.values() if not namespace or one.namespace == namespace)

    def by(self, index: str, value: str) -> Iterator[Object]:
        return (one for one in self._objects.values() if value in values(one, index))


def _may_own(owner: Object, one: Object) -> bool:
    """A namespaced owner owns only in its namespace: anyone can write a reference to one elsewhere."""
    return not owner.namespace or owner.namespace == one.namespace
