"""Types of a schema's keywords. What passes can be read by ``schema_json.from_json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pilothouse.meta.fields import FieldError, child, element, entry
from pilothouse.meta.schema.validation import deeper_than, type_name

MAX_SCHEMA_DEPTH: Final = 128
"""The maximum nesting of a schema document; a field takes two levels."""

_TYPES: Final = {
    "string": "type format title description pattern $schema id x-kubernetes-list-type x-kubernetes-map-type"
    " x-kubernetes-patch-merge-key x-kubernetes-patch-strategy",
    "boolean": "nullable exclusiveMinimum exclusiveMaximum uniqueItems x-kubernetes-preserve-unknown-fields"
    " x-kubernetes-embedded-resource x-kubernetes-int-or-string",
    "integer": "minLength maxLength minItems maxItems minProperties maxProperties",
    "number": "minimum maximum multipleOf",
    "array": "required enum allOf anyOf oneOf x-kubernetes-list-map-keys x-kubernetes-validations",
    "object": "properties items not",
}
_EXPECTED: Final = {keyword: kind for kind, keywords in _TYPES.items() for keyword in keywords.split()}
_UNSUPPORTED: Final = (
    "$ref", "definitions", "dependencies", "deprecated", "discriminator", "patternProperties",
    "additionalItems", "readOnly", "writeOnly", "xml",
)  # fmt: skip
_RULE_TYPES: Final = {
    "rule": "string",
    "message": "string",
    "messageExpression": "string",
    "reason": "string",
    "fieldPath": "string",
    "optionalOldSelf": "boolean",
}


def keyword_problems(raw: Any, path: str) -> list[FieldError]:
    """What is wrong with the keywords of a schema document."""
    if deeper_than(raw, MAX_SCHEMA_DEPTH):
        return [
            FieldError.invalid(path, "object", f"must not be nested more than {MAX_SCHEMA_DEPTH} levels deep")
        ]
    return list(_node(raw, path))


def _node(raw: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(raw, dict):
        yield _mismatch(path, raw, "object")
        return
    for keyword in _UNSUPPORTED:
        if keyword in raw:
            yield FieldError.forbidden(child(path, keyword), f"{keyword} is not supported")
    if raw.get("uniqueItems") is True:
        yield FieldError.forbidden(
            child(path, "uniqueItems"), "must not be true: use x-kubernetes-list-type: set instead"
        )
    for keyword, expected in _EXPECTED.items():
        value = raw.get(keyword)
        if value is None:
            continue
        actual = type_name(value)
        where = child(path, keyword)
        if actual != expected and not (expected == "number" and actual == "integer"):
            yield _mismatch(where, value, expected)
        elif expected == "integer" and value < 0:
            yield FieldError.invalid(where, value, "must not be negative")
        elif keyword in ("required", "x-kubernetes-list-map-keys"):
            for index, name in enumerate(value):
                if not isinstance(name, str):
                    yield _mismatch(element(where, index), name, "string")
        elif keyword in ("allOf", "anyOf", "oneOf"):
            for index, each in enumerate(value):
                yield from _node(each, element(where, index))
        elif keyword == "properties":
            for name, each in value.items():
                yield from _node(each, entry(where, name))
        elif keyword in ("items", "not"):
            yield from _node(value, where)
        elif keyword == "x-kubernetes-validations":
            yield from _rules(value, where)
        elif keyword == "multipleOf" and value <= 0:
            yield FieldError.invalid(where, value, "must be greater than 0")
    additional = raw.get("additionalProperties")
    if isinstance(additional, dict):
        yield from _node(additional, child(path, "additionalProperties"))
    elif additional is not None and not isinstance(additional, bool):
        yield _mismatch(child(path, "additionalProperties"), additional, "object or boolean")


def _rules(value: list[Any], path: str) -> Iterator[FieldError]:
    for index, rule in enumerate(value):
        where = element(path, index)
        if not isinstance(rule, dict):
            yield _mismatch(where, rule, "object")
            continue
        for key, expected in _RULE_TYPES.items():
            if rule.get(key) is not None and type_name(rule[key]) != expected:
                yield _mismatch(child(where, key), rule[key], expected)


def _mismatch(path: str, value: Any, expected: str) -> FieldError:
    actual = type_name(value)
    return FieldError.type_invalid(path, actual, f'must be of type {expected}: "{actual}"')
