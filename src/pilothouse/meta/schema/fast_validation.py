"""Fast validation: one call into compiled code for an object without faults.

    acceptor = FastValidator(schema)
    acceptor.accepts(obj)

The schema becomes a JSON Schema that forbids unknown fields where they would be pruned and nulls where they
would be dropped; a plan checks that keys of map lists are unique. True is binding: nothing to prune, no null
to drop, no fault. False is not: the pattern engine may be stricter, so the caller validates in full.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import jsonschema_rs
import msgspec

from pilothouse.meta.schema.formats import FORMATS, INTEGER_RANGES, portable_pattern
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.pruning import IDENTITY
from pilothouse.meta.schema.regular_expressions import MAX_STEPS, size_of
from pilothouse.meta.schema.schema_plan import SchemaPlan, make_plan

_LIMITS = tuple(
    each.name
    for each in fields(Schema)
    if each.name not in {"ref", "component", "title", "description", "default", "rules"}
)
"""A use of a component that changes any of these is not checked by the component's definition."""
_PLAIN_DATE_TIME = (
    r"^[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|1[0-9]|2[0-8]))T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?Z$"
)
"""Common date-times, matched without a call into Python."""
_ANY_BUT_NULL = ["object", "array", "string", "number", "boolean"]


_encode = msgspec.json.encode


class FastValidator:
    """A schema as compiled JSON Schema."""

    def __init__(self, schema: Schema) -> None:
        translation = _Translation()
        root = translation.node(schema)
        if translation.definitions:
            root = {**root, "$defs": translation.definitions}
        self._validator = jsonschema_rs.Draft202012Validator(
            root,
            formats={f"checked-{name}": check for name, check in FORMATS.items()},
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
        self._keyed = make_plan(schema, lambda node: node.list_type == "map" and bool(node.list_map_keys))

        self._patterns = translation.pattern_size
        """The maximum size of the patterns that a text is matched with; see ``regular_expressions``."""

    def accepts(self, obj: Any) -> bool:
        if self._patterns and self._patterns * len(_encode(obj)) > MAX_STEPS:
            return False
        return self._validator.is_valid(obj) and (self._keyed is None or _keys_unique(self._keyed, obj))


def _keys_unique(plan: SchemaPlan, value: Any) -> bool:
    if isinstance(value, dict):
        for name, inner in plan.properties:
            found = value.get(name)
            if found and not _keys_unique(inner, found):
                return False
        if plan.additional is not None:
            specified = plan.schema.properties
            return all(
                _keys_unique(plan.additional, found) for name, found in value.items() if name not in specified
            )
    elif isinstance(value, list):
        if plan.wanted and len(value) > 1:
            keys = plan.schema.list_map_keys
            try:
                if len(keys) == 1:
                    seen = {item.get(keys[0]) for item in value}
                else:
                    seen = {tuple(item.get(key) for key in keys) for item in value}
            except TypeError:
                return False  # A key that is a list or a map itself.
            if len(seen) < len(value):
                return False
        if plan.items is not None:
            return all(_keys_unique(plan.items, found) for found in value)
    return True


class _Translation:
    """Schema nodes to JSON Schema; components become definitions, each translated once."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Schema] = []
        self._largest = 0
        self._in_junctors = 0

    @property
    def pattern_size(self) -> int:
        return self._largest + self._in_junctors

    def node(self, schema: Schema) -> dict[str, Any]:
        component = schema.component or schema
        if not schema.ref or any(getattr(component, name) is not getattr(schema, name) for name in _LIMITS):
            return self.structural(schema)
        name = self._names.get(id(component))
        if name is None:
            name = self._names[id(component)] = f"d{len(self._names)}"
            self._kept.append(component)
            self.definitions[name] = self.structural(schema)
        return {"$ref": f"#/$defs/{name}"}

    def structural(self, schema: Schema) -> dict[str, Any]:
        """A structural node: its type and the list of its properties are binding."""
        said = self.limits(schema)
        if schema.pattern:
            self._largest = max(self._largest, size_of(schema.pattern))
        said["type"] = _types(schema)
        if schema.type == "object":
            properties = {name: self.node(child) for name, child in schema.properties.items()}
            if schema.embedded_resource:
                for name in IDENTITY - properties.keys():
                    properties[name] = {}
            if properties:
                said["properties"] = properties
            if schema.additional is not None:
                said["additionalProperties"] = self.node(schema.additional)
            elif not schema.preserve_unknown:
                said["additionalProperties"] = False
        elif not schema.type and schema.preserve_unknown and schema.properties:
            said["properties"] = {name: self.node(child) for name, child in schema.properties.items()}
        if schema.items is not None:
            said["items"] = self.node(schema.items)
        if schema.list_type == "set":
            said["uniqueItems"] = True
        elif schema.list_type == "map" and (schema.items is None or schema.items.type != "object"):
            said["items"] = {"allOf": [said.get("items", {}), {"type": "object"}]}
        return said

    def junctor(self, schema: Schema) -> dict[str, Any]:
        """A node in ``allOf``, ``anyOf``, ``oneOf`` or ``not``: it only limits structural nodes."""
        said = self.limits(schema)
        if schema.pattern:
            self._in_junctors += size_of(schema.pattern)
        if schema.type or schema.int_or_string:
            said["type"] = _types(schema)
        if schema.properties:
            said["properties"] = {name: self.junctor(child) for name, child in schema.properties.items()}
        if schema.additional is not None:
            said["additionalProperties"] = self.junctor(schema.additional)
        if schema.items is not None:
            said["items"] = self.junctor(schema.items)
        return said

    def limits(self, schema: Schema) -> dict[str, Any]:
        said: dict[str, Any] = {}
        for keyword, value in (
            ("multipleOf", schema.multiple_of),
            ("minLength", schema.min_length),
            ("maxLength", schema.max_length),
            ("minItems", schema.min_items),
            ("maxItems", schema.max_items),
            ("minProperties", schema.min_properties),
            ("maxProperties", schema.max_properties),
            ("exclusiveMinimum" if schema.exclusive_minimum else "minimum", schema.minimum),
            ("exclusiveMaximum" if schema.exclusive_maximum else "maximum", schema.maximum),
        ):
            if value is not None:
                said[keyword] = value
        if schema.pattern:
            said["pattern"] = portable_pattern(schema.pattern)
        if schema.enum:
            said["enum"] = list(schema.enum)
        if schema.required:
            said["required"] = list(schema.required)
        every = [self.junctor(each) for each in schema.all_of]
        if schema.format == "date-time":
            every.append({"pattern": _PLAIN_DATE_TIME})
        elif schema.format in FORMATS:
            said["format"] = f"checked-{schema.format}"
        if schema.type == "integer" and schema.format in INTEGER_RANGES:
            low, high = INTEGER_RANGES[schema.format]
            every.append({"minimum": low, "maximum": high})
        if every:
            said["allOf"] = every
        if schema.any_of:
            said["anyOf"] = [self.junctor(each) for each in schema.any_of]
        if schema.one_of:
            said["oneOf"] = [self.junctor(each) for each in schema.one_of]
        if schema.not_ is not None:
            said["not"] = self.junctor(schema.not_)
        return said


def _types(schema: Schema) -> str | list[str]:
    if schema.int_or_string:
        types = ["number" if schema.format == "quantity" else "integer", "string"]
    elif schema.type:
        types = [schema.type]
    else:
        types = list(_ANY_BUT_NULL)
    if schema.nullable:
        types.append("null")
    return types[0] if len(types) == 1 else types
