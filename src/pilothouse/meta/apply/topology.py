"""A schema reduced to how parts of an object are owned and merged.

    users = topology(schema).declared["spec"][1].declared["users"][1]
    users.kind                            # LIST_MAP
    users.element({"name": "u1"})         # 'k:{"name":"u1"}', the FieldsV1 name of this item

A leaf (a scalar or an atomic container) is owned and replaced whole; a map, list-map or set by part. ``FREE``
has no schema: maps by part, lists whole. ``SKIPPED`` belongs to the server and is never owned. Atomic
containers keep their contents' nodes, so that applied objects can be checked. FieldsV1 names are precomputed,
since every write needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from pilothouse.meta.schema.model import UNSET, Schema

LEAF: Final = 0
MAP: Final = 1
LIST_MAP: Final = 2
SET: Final = 3
FREE: Final = 4
SKIPPED: Final = 5
MAPS: Final = (MAP, FREE)
LISTS: Final = (LIST_MAP, SET)

_NEVER_OWNED: Final = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
    "managedFields", "resourceVersion",
)  # fmt: skip


class KeylessError(ValueError):
    """An item of a list-map lacks its key, or an item of a set has a type that sets can't hold."""


class TopologyNode:
    """One place in an object. ``declared`` maps a field to its FieldsV1 name and node."""

    __slots__ = ("declared", "defaults", "item", "keys", "kind", "rest", "schema")

    def __init__(
        self,
        kind: int,
        schema: Schema,
        *,
        declared: Mapping[str, tuple[str, TopologyNode]] | None = None,
        rest: TopologyNode | None = None,
        item: TopologyNode | None = None,
        keys: tuple[str, ...] = (),
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.schema = schema
        self.declared: Mapping[str, tuple[str, TopologyNode]] = declared or {}
        self.rest = rest
        """The node of undeclared fields; None if there may be none."""
        self.item = item
        self.keys = keys
        self.defaults: Mapping[str, Any] = defaults or {}

    def child(self, field: str) -> tuple[str, TopologyNode, bool]:
        """FieldsV1 name and node of a field, and whether the schema declares it by name."""
        known = self.declared.get(field)
        if known is not None:
            return known[0], known[1], True
        return f"f:{field}", self.rest or UNDESCRIBED, False

    def element(self, item: Any) -> str:
        """The FieldsV1 name of a list item. Raises KeylessError."""
        if self.kind == SET:
            if item is None or type(item) is dict or type(item) is list:
                raise KeylessError("an item of a set must be a plain value")
            return f"v:{_encode(item).decode()}"
        if type(item) is not dict:
            raise KeylessError("an item of a list with keys must be an object")
        found = {}
        for key in self.keys:
            value = item.get(key, UNSET)
            if value is UNSET:
                value = self.defaults.get(key, UNSET)
                if value is UNSET:
                    raise KeylessError(f'the item omits its key field "{key}"')
            if type(value) is dict or type(value) is list:
                raise KeylessError(f'the key field "{key}" must be a plain value')
            found[key] = value
        return f"k:{_encode(found).decode()}"

    def elements(self, items: list[Any]) -> list[str] | None:
        """The names of all items; None if one has no name: then the list is owned whole."""
        try:
            return [self.element(item) for item in items]
        except KeylessError:
            return None


_encode = msgspec.json.Encoder(order="deterministic").encode
UNDESCRIBED: Final = TopologyNode(FREE, Schema(preserve_unknown=True))
"""The node of values without a schema."""
_SKIPPED: Final = TopologyNode(SKIPPED, Schema())


@lru_cache(maxsize=1024)
def topology(schema: Schema) -> TopologyNode:
    """The root node of a kind, with the server's own fields skipped."""
    root = _node(schema, False, {})
    declared = dict(root.declared)
    for field in ("apiVersion", "kind"):
        declared[field] = (f"f:{field}", _SKIPPED)
    if "metadata" in declared:
        name, metadata = declared["metadata"]
        skipped = {field: (f"f:{field}", _SKIPPED) for field in _NEVER_OWNED}
        declared["metadata"] = (
            name,
            TopologyNode(MAP, metadata.schema, declared={**metadata.declared, **skipped}, rest=metadata.rest),
        )
    return TopologyNode(MAP, schema, declared=declared, rest=root.rest)


def _node(schema: Schema, preserving: bool, made: dict[tuple[int, bool], TopologyNode]) -> TopologyNode:
    """``preserving``: an enclosing schema keeps unknown fields, so this one may have them too."""
    preserving = preserving or schema.preserve_unknown
    key = (id(schema), preserving)
    if key not in made:
        made[key] = _make(schema, preserving, made)
    return made[key]


def _make(schema: Schema, preserving: bool, made: dict[tuple[int, bool], TopologyNode]) -> TopologyNode:
    if schema.type == "array":
        return _make_list(schema, preserving, made)
    if schema.type == "" and not schema.properties:
        if schema.int_or_string:
            return TopologyNode(LEAF, schema)
        if len(schema.all_of) == 1 and not schema.preserve_unknown:
            return _node(schema.all_of[0], preserving, made)
        return TopologyNode(LEAF, schema) if schema.map_type == "atomic" else UNDESCRIBED
    if schema.type not in ("object", ""):
        return TopologyNode(LEAF, schema)
    declared = {
        field: (f"f:{field}", _node(child, preserving, made)) for field, child in schema.properties.items()
    }
    rest = None
    if schema.additional is not None:
        rest = _node(schema.additional, preserving, made)
    elif preserving or not declared:
        rest = UNDESCRIBED
    elif schema.embedded_resource:
        for field in ("apiVersion", "kind", "metadata"):
            declared.setdefault(field, (f"f:{field}", UNDESCRIBED))
    return TopologyNode(LEAF if schema.map_type == "atomic" else MAP, schema, declared=declared, rest=rest)


def _make_list(schema: Schema, preserving: bool, made: dict[tuple[int, bool], TopologyNode]) -> TopologyNode:
    if schema.items is None:
        return TopologyNode(LEAF, schema, item=UNDESCRIBED)
    kind, keys = _list_kind(schema)
    item = _node(schema.items, preserving, made)
    defaults = {
        key: item.declared[key][1].schema.default
        for key in keys
        if key in item.declared and item.declared[key][1].schema.default is not UNSET
    }
    return TopologyNode(kind, schema, item=item, keys=keys, defaults=defaults)


def _list_kind(schema: Schema) -> tuple[int, tuple[str, ...]]:
    if schema.list_type == "map":
        return LIST_MAP, tuple(sorted(schema.list_map_keys))
    if schema.list_type == "set":
        return SET, ()
    if schema.list_type == "" and "merge" in schema.merge_strategy.split(","):
        return (LIST_MAP, (schema.merge_key,)) if schema.merge_key else (SET, ())
    return LEAF, ()
