"""Fills in defaults.

    defaults = Defaults(schema)
    defaults.fill(obj)

A null in a field that isn't nullable counts as absent. Outer defaults come first, so a default of ``{}`` gets
the defaults below it. Filling in is idempotent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.meta.schema.model import UNSET, Schema
from pilothouse.meta.schema.schema_plan import SchemaPlan, make_plan


class Defaults:
    """The defaults of a schema, with the paths to them computed once."""

    def __init__(self, schema: Schema) -> None:
        self._plan = make_plan(schema, lambda node: node.default is not UNSET)
        self._encoded: dict[int, bytes] = {}

    def fill(self, obj: dict[str, Any]) -> None:
        if self._plan is not None:
            self._fill(self._plan, obj)

    def _fill(self, plan: SchemaPlan, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in plan.properties:
                current = value.get(name, UNSET)
                if inner.wanted and (current is UNSET or (current is None and not inner.schema.nullable)):
                    current = value[name] = self._copy(inner.schema)
                if isinstance(current, (dict, list)):
                    self._fill(inner, current)
            if plan.additional is not None:
                specified = plan.schema.properties
                for name, current in value.items():
                    if name not in specified:
                        value[name] = self._filled(plan.additional, current)
        elif isinstance(value, list) and plan.items is not None:
            for index, current in enumerate(value):
                value[index] = self._filled(plan.items, current)

    def _filled(self, plan: SchemaPlan, current: Any) -> Any:
        """A list element or map value: it exists, so only a null can be replaced."""
        if current is None and plan.wanted and not plan.schema.nullable:
            current = self._copy(plan.schema)
        if isinstance(current, (dict, list)):
            self._fill(plan, current)
        return current

    def _copy(self, schema: Schema) -> Any:
        if not isinstance(schema.default, (dict, list)):
            return schema.default
        encoded = self._encoded.get(id(schema))
        if encoded is None:
            encoded = self._encoded[id(schema)] = msgspec.json.encode(schema.default)
        return msgspec.json.decode(encoded)


def drop_nulls(schema: Schema, value: Any) -> None:
    """Remove, in place, each null of a field that is not nullable and has no default."""
    if isinstance(value, dict):
        dropped = []
        for name, inner in value.items():
            node = schema.properties.get(name, schema.additional)
            if node is None:
                continue
            if inner is None:
                if not node.nullable and node.default is UNSET:
                    dropped.append(name)
            elif isinstance(inner, (dict, list)):
                drop_nulls(node, inner)
        for name in dropped:
            del value[name]
    elif isinstance(value, list) and schema.items is not None:
        for inner in value:
            if isinstance(inner, (dict, list)):
                drop_nulls(schema.items, inner)
