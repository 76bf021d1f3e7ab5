"""Validation of the JSONPaths and validation rules of a CustomResourceDefinition.

    list(path_problems(version, "spec.versions[0]"))
    # [FieldError("spec.versions[0].additionalPrinterColumns[1].jsonPath": … is not a JSONPath …)]

A column may use all of JSONPath. A selectable field is one value: a plain path that the schema has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.meta.fields import FieldError, child, element, entry
from pilothouse.meta.json_path import PathError, compile_first, plain_fields

_RULES: Final = "x-kubernetes-validations"
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"})
_SELECTABLE: Final = ("boolean", "integer", "string")


def path_problems(version: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        given = column.get("jsonPath") or ""
        problem = _unreadable(given)
        if problem:
            at = f"{element(f'{path}.additionalPrinterColumns', index)}.jsonPath"
            yield FieldError.invalid(at, given, problem)
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    for index, selected in enumerate(version.get("selectableFields") or ()):
        given = selected.get("jsonPath") or ""
        problem = _unreadable(given) or _unselectable(given, schema)
        if given and problem:
            yield FieldError.invalid(f"{element(f'{path}.selectableFields', index)}.jsonPath", given, problem)


def rule_problems(schema: Any, path: str) -> Iterator[FieldError]:
    """The entries of ``x-kubernetes-validations`` in a schema that say no rule."""
    if isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from rule_problems(each, element(path, index))
    if not isinstance(schema, dict):
        return
    for index, rule in enumerate(schema.get(_RULES) or ()):
        if not isinstance(rule, dict) or not rule.get("rule"):
            yield FieldError.required(f"{element(child(path, _RULES), index)}.rule")
    for name, inner in schema.items():
        if name in _SCHEMAS:
            yield from rule_problems(inner, child(path, name))
        elif name == "properties" and isinstance(inner, dict):
            for field, each in inner.items():
                yield from rule_problems(each, entry(child(path, name), field))


def _unreadable(path: str) -> str:
    try:
        compile_first(path)
    except PathError as problem:
        return str(problem)
    return ""


def _unselectable(path: str, schema: Any) -> str:
    fields = plain_fields(path)
    if fields is None or not path.startswith("."):
        return "must be a simple path of fields, such as .spec.engine"
    node = schema
    for field in fields:
        inner = node.get("properties") if isinstance(node, dict) else None
        node = inner.get(field) if isinstance(inner, dict) else None
    if not isinstance(node, dict) or node.get("type") not in _SELECTABLE:
        types = f"{', '.join(_SELECTABLE[:-1])} or {_SELECTABLE[-1]}"
        return f"must lead to a field that the schema has, of type {types}"
    return ""
