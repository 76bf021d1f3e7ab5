"""Splits an object into what an older schema knows and the rest, and joins them again.

    seen, rest = split({"name": "a", "config": {"x": 1}}, schema_that_knows_only_name)
    # {"name": "a"}, {"config": {"x": 1}}
    join({"name": "a"}, {"config": {"x": 1}}, schema_that_knows_only_name)
    # {"name": "a", "config": {"x": 1}}

``join(*split(value, schema), schema)`` is ``value``. Edits of the seen part count: the rest only adds fields
that the schema doesn't know. The rest of a list item or map entry follows its key; the rest of a field stays
even if all of the field that was seen is gone. The rest has the value's shape, but a list with keys is a map
from key to rest.
"""

from __future__ import annotations

from typing import Any

from pilothouse.meta.schema.model import Schema


def split(value: Any, schema: Schema) -> tuple[Any, Any]:
    """What the schema knows of a value, and the rest, None if nothing."""
    if isinstance(value, dict) and schema.type == "object" and not schema.preserve_unknown:
        return _split_object(value, schema)
    if isinstance(value, list) and schema.items is not None and schema.list_map_keys:
        return _split_list(value, schema.items, schema.list_map_keys[0])
    return value, None


def join(seen: Any, rest: Any, schema: Schema) -> Any:
    """The value of these parts. A rest that doesn't fit the seen part is dropped."""
    if not isinstance(rest, dict):
        return seen
    if isinstance(seen, dict):
        return _join_object(seen, rest, schema)
    if isinstance(seen, list) and schema.items is not None and schema.list_map_keys:
        key = schema.list_map_keys[0]
        return [join(item, rest.get(_key_of(item, key)), schema.items) for item in seen]
    return seen


def _split_object(value: dict[str, Any], schema: Schema) -> tuple[Any, Any]:
    seen: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, child in value.items():
        child_schema = schema.properties.get(name, schema.additional)
        if child_schema is None:
            rest[name] = child
            continue
        seen[name], unseen = split(child, child_schema)
        if unseen is not None:
            rest[name] = unseen
    return seen, rest or None


def _split_list(items: list[Any], schema: Schema, key: str) -> tuple[Any, Any]:
    seen: list[Any] = []
    rest: dict[str, Any] = {}
    for item in items:
        visible, unseen = split(item, schema)
        seen.append(visible)
        if unseen is not None:
            rest[_key_of(item, key)] = unseen
    return seen, rest or None


def _join_object(seen: dict[str, Any], rest: dict[str, Any], schema: Schema) -> dict[str, Any]:
    whole = dict(seen)
    for name, unseen in rest.items():
        if schema.additional is not None:
            if name in seen:
                whole[name] = join(seen[name], unseen, schema.additional)
        elif name not in schema.properties:
            whole[name] = unseen
        elif name in seen:
            whole[name] = join(seen[name], unseen, schema.properties[name])
        elif schema.properties[name].properties and (kept := join({}, unseen, schema.properties[name])):
            whole[name] = kept
    return whole


def _key_of(item: Any, key: str) -> str:
    return str(item.get(key, "")) if isinstance(item, dict) else ""
