"""What a CRD's schema must be like."""

from __future__ import annotations

from typing import Any

import pytest
from tests.meta.schema.databases import SCHEMA

from pilothouse.meta.crd import crd_schema
from pilothouse.meta.schema.structural_schemas import structural_problems


def problems(raw: Any) -> list[str]:
    return [str(problem) for problem in structural_problems(raw, "s")]


def field(raw: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A root schema whose field ``x`` is this."""
    return {"type": "object", "properties": {"x": raw}, **more}


def keyed(**item: Any) -> dict[str, Any]:
    return field(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", **item},
        }
    )


def ruled(rule: dict[str, Any], **more: Any) -> dict[str, Any]:
    node = {
        "type": "object",
        "properties": {"y": {"type": "integer"}},
        "x-kubernetes-validations": [rule],
        **more,
    }
    return field(node)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (None, 's: Invalid value: "null": must be of type object'),
        ([], 's: Invalid value: "array": must be of type object'),
        ({"type": 5}, "s.type: Invalid value"),
        ({}, "s.type: Required value: must not be empty at the root"),
        ({"type": "string"}, 's.type: Invalid value: "string": must be object at the root'),
        (field({}), "s.properties[x].type: Required value: must not be empty for specified object fields"),
        (field({"type": "text"}), 's.properties[x].type: Unsupported value: "text"'),
        (field({"type": "array"}), "s.properties[x].items: Required value: must be specified"),
        (field({"type": "array", "items": {}}), "s.properties[x].items.type: Required value"),
        (field({"$ref": "#/x"}), "s.properties[x].$ref: Forbidden: $ref is not supported"),
        (
            field({"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
            "s.properties[x].uniqueItems",
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "must not be used at the root"),
        (
            field(
                {
                    "type": "object",
                    "properties": {"a": {"type": "string"}},
                    "additionalProperties": {"type": "string"},
                }
            ),
            "s.properties[x].additionalProperties: Forbidden: additionalProperties and properties are mutually exclusive",
        ),
        (field({"type": "string", "default": 5}), "s.properties[x].default: Invalid value"),
        (
            field({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}),
            "s.properties[x].default.b: Invalid value",
        ),
        (field({"type": "string", "maxLength": 1, "default": "ab"}), "s.properties[x].default: Too long"),
        ({"type": "object", "default": {}}, "s.default: Forbidden"),
        (
            keyed(properties={"n": {"type": "string"}}),
            "s.properties[x].items.properties[n].default: Required value",
        ),
        (keyed(properties={"n": {"type": "object"}}, required=["n"]), "must be a scalar"),
        (
            keyed(properties={"n": {"type": "string", "nullable": True}}, required=["n"]),
            "nullable: Forbidden",
        ),
        (keyed(), "must be a property of the items"),
        (
            field({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
            "must not be set unless the items are scalars",
        ),
        (
            field({"type": "object", "x-kubernetes-list-type": "set"}),
            "must be array if x-kubernetes-list-type is set",
        ),
        (field({"type": "string", "pattern": "a(?=b)"}), "s.properties[x].pattern: Invalid value"),
        (
            field({"type": "string", "anyOf": [{"type": "string"}]}),
            "s.properties[x].anyOf[0].type: Forbidden",
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"z": {"minimum": 1}}}]},
            "s.properties[z]: Required value: because it is defined in s.anyOf[0].properties[z]",
        ),
        (
            {
                "type": "object",
                "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
            },
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName",
        ),
        (
            {"type": "object", "properties": {"kind": {"type": "integer"}}},
            "s.properties[kind].type: Invalid value",
        ),
        (
            field({"type": "string", "x-kubernetes-preserve-unknown-fields": False}),
            "must be true or undefined",
        ),
        (
            field({"type": "object", "x-kubernetes-embedded-resource": True}),
            "s.properties[x].properties: Required value",
        ),
        (ruled({"rule": "self.z > 1"}), "compilation failed: undefined field 'z'"),
        (ruled({"rule": "self.y.z > 1"}), "type 'integer' does not support field selection of 'z'"),
        (ruled({"rule": "self.y > "}), "Syntax error"),
        (ruled({"rule": "semver(self.y)"}), "undeclared reference to 'semver'"),
        (ruled({"rule": "self.y + 1 == 'a'"}), "found no matching overload"),
        (ruled({"rule": "'text'"}), "must evaluate to a bool, not string"),
        (ruled({"rule": " "}), "rule: Required value"),
        (ruled({"rule": "true", "messageExpression": "1"}), "messageExpression: Invalid value"),
        (ruled({"rule": "true", "fieldPath": ".nope"}), "fieldPath: Invalid value"),
        (ruled({"rule": "true", "reason": "Because"}), "reason: Unsupported value"),
        (ruled({"rule": "true", "message": "a\nb"}), "message must not contain line breaks"),
        (ruled({"rule": "true", "optionalOldSelf": True}), "optionalOldSelf: Invalid value"),
        (
            field(
                {
                    "type": "array",
                    "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                }
            ),
            "oldSelf cannot be used below a list unless",
        ),
    ],
)
def test_a_schema_that_can_not_be_served_is_refused_with_the_path(raw: Any, problem: str) -> None:
    assert problem in "\n".join(problems(raw))


@pytest.mark.parametrize(
    "raw",
    [
        crd_schema(SCHEMA),
        {"type": "object"},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}},
        },
        field({"x-kubernetes-int-or-string": True}),
        field({"x-kubernetes-int-or-string": True, "type": "integer"}),
        field({"type": "object", "additionalProperties": False}),
        field({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}),
        field(
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^a",
            }
        ),
        field(
            {
                "x-kubernetes-int-or-string": True,
                "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}],
            }
        ),
        field({"x-kubernetes-preserve-unknown-fields": True}),
        field({"type": "object", "additionalProperties": True}),
        field({"type": "object", "properties": {"a": {"type": "string", "default": "b"}}, "default": {}}),
        keyed(properties={"n": {"type": "string", "default": ""}}),
        keyed(
            properties={"n": {"type": "string"}},
            required=["n"],
            **{"x-kubernetes-validations": [{"rule": "self.n == oldSelf.n"}]},
        ),
        ruled({"rule": "self.y == oldSelf.y", "fieldPath": ".y", "reason": "FieldValueForbidden"}),
        {"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('a')"}]},
        field({"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}}),
        field({"type": "string", "description": "d", "example": "e", "externalDocs": {"url": "u"}}),
    ],
)
def test_a_schema_in_order_has_no_problems(raw: dict[str, Any]) -> None:
    assert problems(raw) == []


def test_a_schema_nested_beyond_reason_is_refused() -> None:
    raw: dict[str, Any] = {"type": "string"}
    for _ in range(20_000):
        raw = {"type": "object", "properties": {"a": raw}}

    assert "must not be nested more than" in problems(raw)[0]
