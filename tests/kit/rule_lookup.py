"""Objects that the targets of actions look up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree


class Lookup:
    """An ``ObjectLookup`` of fixed objects."""

    def __init__(self, trees: Iterable[Tree]) -> None:
        self._objects = [Object.of(tree) for tree in trees]

    def find(self, kind: KindName, namespace: str, name: str, /) -> Object | None:
        there = self.all(kind, namespace if kind.namespaced else "")
        return next((one for one in there if one.name == name), None)

    def all(self, kind: KindName, namespace: str = "", /) -> Sequence[Object]:
        return [one for one in self._objects if one.noun == kind and namespace in ("", one.namespace)]
