"""Which items of a collection a list or watch covers: namespace, name, labels, fields.

    selection = Selection(served, "t", "app=web", "spec.engine=pg")
    selection.matches(item, derive)

``fieldSelector=metadata.name=x`` becomes one look-up. Fields are read in the request's version. Selections
with the same ``identity`` cover the same items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from pilothouse.apiserver.discovery.catalog import ROOT, ServedVersion
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.items import Derive, Item
from pilothouse.meta import errors
from pilothouse.meta.json_path import compile_first
from pilothouse.meta.kind import Kind
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.selectors import FieldSelector, LabelSelector

NAME, NAMESPACE = "metadata.name", "metadata.namespace"


class Selection:
    """The extent of a view; immutable. 400 for a malformed selector or an unknown field."""

    __slots__ = ("_fields", "_labels", "identity", "key", "prefix", "served")

    def __init__(self, served: ServedVersion, namespace: str, labels: str = "", fields: str = "") -> None:
        self.served = served
        self._labels = LabelSelector.parse(labels) if labels else None
        field_selector = FieldSelector.parse(fields) if fields else None
        if field_selector is not None:
            _check_fields(field_selector, served.kind)
        if served.kind.namespaced and not namespace and field_selector is not None:
            namespace = field_selector.exact(NAMESPACE) or ""
        self.prefix = served.prefix(namespace)
        self.key = self._pinned(namespace, field_selector)
        self._fields = field_selector
        self.identity = (served.kind, self.prefix, labels, fields)

    @property
    def scope(self) -> str:
        """The key it is limited to, or else the prefix."""
        return self.key or self.prefix

    @property
    def selective(self) -> bool:
        """Whether it excludes anything below its prefix."""
        return self._labels is not None or self._fields is not None

    def covers(self, event: CacheEvent) -> bool:
        """True for a change within its scope."""
        return event.key == self.key if self.key else event.key.startswith(self.prefix)

    def matches(self, item: Item, derive: Derive | None) -> bool:
        """True for an item of it; the item is below ``prefix``."""
        if self._labels is not None and not self._labels.matches(item.labels):
            return False
        return self._fields is None or self._fields.matches(self._reader(item, derive))

    def of(self, collection: Collection, after: str = "") -> Iterator[Item]:
        """The items of a collection that belong to it, in key order, from after a key on."""
        if self.key:
            item = collection.items.get(self.key)
            found: Iterator[Item] = iter([item] if item is not None and self.key > after else [])
        else:
            found = map(collection.items.__getitem__, collection.keys(self.prefix, after))
        if not self.selective:
            return found
        derive = collection.derive
        return (item for item in found if self.matches(item, derive))

    def _pinned(self, namespace: str, fields: FieldSelector | None) -> str:
        name = fields.exact(NAME) if fields is not None else None
        if not name or (self.served.kind.namespaced and not namespace):
            return ""
        return self.served.key(namespace, name)

    def _reader(self, item: Item, derive: Derive | None) -> Callable[[str], str]:
        served = self.served

        def read(field: str) -> str:
            if field == NAME:
                return item.name
            if field == NAMESPACE:
                return _namespace(served, item)
            return item.fields(served.kind, lambda: _selectable(served, item, derive))[field]

        return read


def _check_fields(selector: FieldSelector, kind: Kind) -> None:
    for requirement in selector.requirements:
        if requirement.field not in (NAME, NAMESPACE) and requirement.field not in kind.selectable:
            raise errors.bad_request(f"field label not supported: {requirement.field}")


def _namespace(served: ServedVersion, item: Item) -> str:
    if not served.kind.namespaced:
        return ""
    return item.key[len(ROOT) + len(served.resource.path) + 1 :].partition("/")[0]


def _selectable(served: ServedVersion, item: Item, derive: Derive | None) -> Mapping[str, str]:
    obj = codec.decode(item.form(served, derive))
    return {label: _text(find(obj)) or absent for label, find, absent in _paths(served.kind)}


@lru_cache(maxsize=512)
def _paths(kind: Kind) -> tuple[tuple[str, Callable[[Any], Any], str], ...]:
    return tuple((label, _finder(path), _when_absent(kind, path)) for label, path in kind.selectable.items())


def _finder(path: str) -> Callable[[Any], Any]:
    """What finds the first of several paths that is not empty."""
    if "|" not in path:
        return compile_first(path)
    finders = [compile_first(each) for each in path.split("|")]
    return lambda obj: next((found for find in finders if (found := find(obj))), None)


def _when_absent(kind: Kind, path: str) -> str:
    """The value of an absent field: Kubernetes' own kinds take a missing boolean for false."""
    node: Schema | None = kind.schema
    for name in path.strip(".").split("."):
        node = node.properties.get(name) if node is not None else None
    return "false" if kind.native and node is not None and node.type == "boolean" else ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return codec.dump(value).decode()
