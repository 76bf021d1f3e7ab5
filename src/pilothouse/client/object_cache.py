"""Objects of one collection, with indexes.

    cache = ObjectCache({"zone": lambda node: [node.labels["zone"]]})
    cache.get("default", "web-0")
    cache.list("default")                       # of a namespace, or of all
    cache.by(OWNER, uid), cache.by("spec.nodeName", "n1"), cache.by("zone", "a")

An index function returns the values under which an object is found. Indexes by owner, by hour of creation and
by dotted field path are built on first use and kept. Results are new lists of shared, immutable objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from pilothouse.aio.cooperative import yielding
from pilothouse.api.objects import Object

Key = tuple[str, str]
IndexFunction = Callable[[Object], Iterable[str]]

Objects = list[Object]

NAMESPACE = "namespace"
OWNER = "metadata.controller"
"""The index by the uid of the controlling owner; objects without one are under the empty text."""
OWNERS = "metadata.ownerReferences"
"""The index of objects by the uids of all their owners."""

CREATED_HOUR = "metadata.creationTimestamp/hour"
"""The index by the hour of the creation: hours since 1970, as text."""
LACKING = "!"
"""Before a dotted path: the index of objects without a value there, which are under the empty text."""


class CacheChange(NamedTuple):
    """What changed: ``old`` is None for an object that appeared, ``new`` for one that went."""

    old: Object | None
    new: Object | None


Differences = list[CacheChange]


def by_label(key: str) -> IndexFunction:
    """An index by the value of one label."""

    def values(obj: Object) -> Iterable[str]:
        value = obj.labels.get(key)
        return () if value is None else (value,)

    return values


def values(obj: Object, index: str) -> tuple[str, ...]:
    """The values of an object in an index: a dotted path of fields, or one of those above."""
    if index == OWNER:
        owner = obj.controller
        return ("" if owner is None else str(owner.get("uid", "")),)
    if index == OWNERS:
        return tuple(str(owner.get("uid", "")) for owner in obj.owners)
    if index == CREATED_HOUR:
        return (str(int(obj.created // 3600)),)
    if index.startswith(LACKING):
        return ("",) if obj.at(*index.removeprefix(LACKING).split(".")) is None else ()
    found = obj.at(*index.split("."))
    return () if found is None else (str(found),)


class ObjectCache:
    def __init__(self, indexes: Mapping[str, IndexFunction] | None = None) -> None:
        self._objects: dict[Key, Object] = {}
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[Key, Object]]] = {NAMESPACE: {}}
        for name, function in (indexes or {}).items():
            self.index(name, function)

    def index(self, name: str, function: IndexFunction) -> None:
        """Add an index."""
        if name in self._indexes:
            raise ValueError(f"there is an index called {name!r} already")
        self._functions[name] = function
        index: dict[str, dict[Key, Object]] = {}
        self._indexes[name] = index
        for key, obj in self._objects.items():
            for value in function(obj):
                index.setdefault(value, {})[key] = obj

    def get(self, namespace: str, name: str) -> Object | None:
        """The object; the namespace is empty for those that have none."""
        return self._objects.get((namespace, name))

    def list(self, namespace: str = "") -> Objects:
        return self.by(NAMESPACE, namespace) if namespace else list(self._objects.values())

    def by(self, index: str, value: str) -> Objects:
        if index not in self._indexes:
            self.index(index, partial(values, index=index))
        return list(self._indexes[index].get(value, {}).values())

    def __len__(self) -> int:
        return len(self._objects)

    def put(self, obj: Object) -> CacheChange | None:
        """Store a version of an object; None if the known one is as new."""
        old = self._objects.get(obj.key)
        if old is not None:
            if old.uid == obj.uid and old.revision >= obj.revision:
                return None
            self._forget(obj.key, old)
        self._remember(obj.key, obj)
        return CacheChange(old, obj)

    def remove(self, obj: Object) -> CacheChange | None:
        """Remove an object as of its revision; None if it is absent or newer."""
        old = self._objects.get(obj.key)
        if old is None or old.revision > obj.revision:
            return None
        self._forget(obj.key, old)
        return CacheChange(old, None)

    async def replace(self, objects: Collection[Object]) -> Differences:
        """Replace all objects in one step. Other tasks run before it and see the old ones; a ``put``
        meanwhile is lost."""
        fresh = ObjectCache(self._functions)
        known = self._objects

        def place(obj: Object) -> None:
            # Of the same version the one at hand stays: it remembers when it came.
            old = known.get(obj.key)
            fresh.put(old if old is not None and old == obj else obj)

        await yielding(objects, place)
        return self._become(fresh)

    def _become(self, fresh: ObjectCache) -> Differences:
        for name in self._functions.keys() - fresh._functions.keys():
            fresh.index(name, self._functions[name])  # asked for meanwhile
        before, self._objects, self._indexes = self._objects, fresh._objects, fresh._indexes
        after = self._objects
        gone = [CacheChange(old, None) for key, old in before.items() if key not in after]
        come = ((before.get(key), obj) for key, obj in after.items())
        return [*gone, *(CacheChange(old, obj) for old, obj in come if old is not obj)]

    def _remember(self, key: Key, obj: Object) -> None:
        self._objects[key] = obj
        if key[0]:
            self._indexes[NAMESPACE].setdefault(key[0], {})[key] = obj
        for name, function in self._functions.items():
            for value in function(obj):
                self._indexes[name].setdefault(value, {})[key] = obj

    def _forget(self, key: Key, obj: Object) -> None:
        del self._objects[key]
        self._drop(NAMESPACE, key[0], key)
        for name, function in self._functions.items():
            for value in function(obj):
                self._drop(name, value, key)

    def _drop(self, name: str, value: str, key: Key) -> None:
        found = self._indexes[name].get(value)
        if found is not None:
            found.pop(key, None)
            if not found:
                del self._indexes[name][value]
