"""Removes fields that the schema doesn't have.

    prune(schema, {"spec": {"engine": "pg", "zap": 1}})    # ["spec.zap"], and the field is gone

Where a schema keeps unknown fields, specified ones are still pruned by their own schemas. An embedded
resource keeps apiVersion, kind and metadata. A value of the wrong type is left to validation.
"""

from __future__ import annotations

from typing import Any

from pilothouse.meta.fields import child, element
from pilothouse.meta.schema.model import Schema

IDENTITY = frozenset(("apiVersion", "kind", "metadata"))


def prune(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Remove unknown fields in place; their paths, sorted."""
    unknown: list[str] = []
    _prune(schema, obj, "", unknown)
    unknown.sort()
    return unknown


def _prune(schema: Schema, value: Any, path: str, unknown: list[str]) -> None:
    if isinstance(value, dict):
        properties, additional = schema.properties, schema.additional
        strangers = []
        for name, inner in value.items():
            node = properties.get(name, additional)
            if node is None:
                if not (schema.preserve_unknown or (schema.embedded_resource and name in IDENTITY)):
                    strangers.append(name)
            elif isinstance(inner, (dict, list)):
                _prune(node, inner, child(path, name), unknown)
        for name in strangers:
            del value[name]
            unknown.append(child(path, name))
    elif isinstance(value, list) and schema.items is not None:
        for index, inner in enumerate(value):
            if isinstance(inner, (dict, list)):
                _prune(schema.items, inner, element(path, index), unknown)
