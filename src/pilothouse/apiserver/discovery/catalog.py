"""The catalog of kinds: which resource is served at which group, version and plural.

It has the kinds of ``api`` and of CRDs. ``generation`` changes with every change, for derived documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from pilothouse.meta.kind import Kind, Resource
from pilothouse.meta.versions import api_version_rank

ROOT = "/registry/"


class ServedVersion(msgspec.Struct, frozen=True):
    """A resource, seen through one of its versions."""

    resource: Resource
    kind: Kind

    def prefix(self, namespace: str = "") -> str:
        """The store's prefix of the collection; with a namespace, of that namespace's part of it."""
        base = f"{ROOT}{self.resource.path}/"
        return f"{base}{namespace}/" if namespace else base

    def key(self, namespace: str, name: str) -> str:
        """The store's key of an object."""
        return f"{self.prefix(namespace if self.kind.namespaced else '')}{name}"


class KindCatalog:
    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self.generation = 0
        self._resources: dict[tuple[str, str], Resource] = {}
        self._served: dict[tuple[str, str, str], ServedVersion] = {}
        self._listeners: list[Callable[[], None]] = []
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> ServedVersion | None:
        return self._served.get((group, version, plural))

    def resource(self, group: str, plural: str) -> Resource | None:
        return self._resources.get((group, plural))

    def of_kind(self, api_version: str, kind: str) -> ServedVersion | None:
        """What serves objects with this ``apiVersion`` and ``kind``."""
        group, _, version = api_version.rpartition("/")
        for (served_group, served_version, _), served in self._served.items():
            if served_group == group and served_version == version and served.kind.name == kind:
                return served
        return None

    def add(self, resource: Resource) -> None:
        """Serve a resource; one of the same group and plural is replaced."""
        self._forget(resource.group, resource.plural)
        self._resources[resource.group, resource.plural] = resource
        for kind in resource.kinds:
            if kind.served:
                self._served[kind.group, kind.version, kind.plural] = ServedVersion(resource, kind)
        self._changed()

    def remove(self, group: str, plural: str) -> None:
        if self._forget(group, plural):
            self._changed()

    def groups(self) -> dict[str, list[str]]:
        """Each group with its versions, the preferred one first; the core group is the empty string."""
        found: dict[str, set[str]] = {}
        for group, version, _ in self._served:
            found.setdefault(group, set()).add(version)
        return {group: sorted(versions, key=api_version_rank) for group, versions in found.items()}

    def kinds(self, group: str, version: str) -> list[Kind]:
        """What a group and version serves, by plural."""
        found = [served.kind for (g, v, _), served in self._served.items() if (g, v) == (group, version)]
        return sorted(found, key=lambda kind: kind.plural)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _forget(self, group: str, plural: str) -> bool:
        resource = self._resources.pop((group, plural), None)
        if resource is None:
            return False
        for kind in resource.kinds:
            self._served.pop((kind.group, kind.version, kind.plural), None)
        return True

    def _changed(self) -> None:
        self.generation += 1
        for listener in self._listeners:
            listener()
