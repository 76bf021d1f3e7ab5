"""Schemas to and from OpenAPI 3.0 with ``x-kubernetes-*`` extensions.

    schema = from_json(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    to_json(schema)                            # the whole tree, as a CRD has it
    components = Components("#/components/schemas/")
    to_json(schema, components)                # {"$ref": …}; components.schemas holds what is referred to

``from_json`` takes schemas that ``structural_schemas`` accepts and drops keywords without meaning to the
server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from pilothouse.meta.schema.model import UNSET, Schema, ValidationRule

INT_OR_STRING: Final = ({"type": "integer"}, {"type": "string"})

_PLAIN: Final = {
    "type": "type",
    "format": "format",
    "title": "title",
    "description": "description",
    "nullable": "nullable",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minItems": "min_items",
    "maxItems": "max_items",
    "minProperties": "min_properties",
    "maxProperties": "max_properties",
    "x-kubernetes-preserve-unknown-fields": "preserve_unknown",
    "x-kubernetes-embedded-resource": "embedded_resource",
    "x-kubernetes-int-or-string": "int_or_string",
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-map-type": "map_type",
    "x-kubernetes-patch-merge-key": "merge_key",
    "x-kubernetes-patch-strategy": "merge_strategy",
}
_LISTS: Final = {"required": "required", "enum": "enum", "x-kubernetes-list-map-keys": "list_map_keys"}
_JUNCTORS: Final = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}
_RULE: Final = {
    "rule": "rule",
    "message": "message",
    "messageExpression": "message_expression",
    "reason": "reason",
    "fieldPath": "field_path",
    "optionalOldSelf": "optional_old_self",
}
_UNSAID: Final = {each.name: each.default for each in fields(Schema)}
_UNSAID_RULE: Final = {each.name: each.default for each in fields(ValidationRule)}


def from_json(raw: Mapping[str, Any]) -> Schema:
    """The schema that an ``openAPIV3Schema`` describes."""
    said: dict[str, Any] = {name: raw[key] for key, name in _PLAIN.items() if raw.get(key) is not None}
    said |= {name: tuple(raw[key]) for key, name in _LISTS.items() if raw.get(key)}
    for key, name in _JUNCTORS.items():
        if raw.get(key):
            said[name] = tuple(from_json(each) for each in raw[key])
    if said.get("int_or_string") and tuple(raw.get("anyOf") or ()) == INT_OR_STRING:
        del said["any_of"]  # The flag says it already.
    if said.get("int_or_string"):
        said.pop("type", None)
    if raw.get("not") is not None:
        said["not_"] = from_json(raw["not"])
    if raw.get("items") is not None:
        said["items"] = from_json(raw["items"])
    if raw.get("properties"):
        said["properties"] = {name: from_json(each) for name, each in raw["properties"].items()}
    additional = raw.get("additionalProperties")
    if additional is True:
        said["additional"] = Schema(preserve_unknown=True, nullable=True)
    elif additional not in (None, False):
        said["additional"] = from_json(additional)
    if "default" in raw and (raw["default"] is not None or raw.get("nullable")):
        said["default"] = raw["default"]
    if raw.get("x-kubernetes-validations"):
        said["rules"] = tuple(_rule(each) for each in raw["x-kubernetes-validations"])
    return Schema(**said)


def _rule(raw: Mapping[str, Any]) -> ValidationRule:
    return ValidationRule(**{name: raw[key] for key, name in _RULE.items() if raw.get(key) is not None})


class Components:
    """The named schemas of a document, collected while other schemas refer to them."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.schemas: dict[str, dict[str, Any]] = {}

    def refer(self, schema: Schema) -> dict[str, Any]:
        """A reference to the component that a node is a use of."""
        if schema.ref not in self.schemas:
            self.schemas[schema.ref] = {}  # Taken, so that a use further down finds it.
            self.schemas[schema.ref] = _body(schema.component or schema, self)
        reference = {"$ref": f"{self.prefix}{schema.ref}"}
        component = schema.component
        if component is None:
            return reference
        own: dict[str, Any] = {}
        if schema.description != component.description:
            own["description"] = schema.description
        if schema.default is not component.default:
            own["default"] = schema.default
        if schema.nullable and not component.nullable:
            own["nullable"] = True
        if schema.merge_strategy != component.merge_strategy:
            own["x-kubernetes-patch-strategy"] = schema.merge_strategy
        # OpenAPI 3.0 ignores whatever stands beside a $ref.
        return {**own, "allOf": [reference]} if own else reference


def to_json(schema: Schema, components: Components | None = None) -> dict[str, Any]:
    """A schema as OpenAPI; nodes that are components become references if ``components`` is given."""
    if components is not None and schema.ref:
        return components.refer(schema)
    return _body(schema, components)


def _body(schema: Schema, components: Components | None) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for key, name in _PLAIN.items():
        value = getattr(schema, name)
        if value != _UNSAID[name]:
            said[key] = value
    if schema.format == "quantity":
        del said["format"]  # Ours alone: other servers warn of formats that they don't know.
    for key, name in _LISTS.items():
        if getattr(schema, name):
            said[key] = list(getattr(schema, name))
    if schema.default is not UNSET:
        said["default"] = schema.default
    if schema.properties:
        said["properties"] = {name: to_json(each, components) for name, each in schema.properties.items()}
    if schema.additional is not None:
        anything = (
            schema.additional.preserve_unknown and schema.additional.nullable and not schema.additional.type
        )
        said["additionalProperties"] = True if anything else to_json(schema.additional, components)
    if schema.items is not None:
        said["items"] = to_json(schema.items, components)
    for key, name in _JUNCTORS.items():
        if getattr(schema, name):
            said[key] = [to_json(each, components) for each in getattr(schema, name)]
    if schema.int_or_string and not schema.any_of and not schema.all_of and not schema.type:
        said["anyOf"] = [dict(each) for each in INT_OR_STRING]
    if schema.not_ is not None:
        said["not"] = to_json(schema.not_, components)
    if schema.rules:
        said["x-kubernetes-validations"] = [
            {
                key: getattr(rule, name)
                for key, name in _RULE.items()
                if getattr(rule, name) != _UNSAID_RULE[name]
            }
            | {"rule": rule.rule}
            for rule in schema.rules
        ]
    return said
