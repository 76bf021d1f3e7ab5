"""Checks whether a schema is structural, so that a kind can be built on it.

    structural_problems(version["schema"]["openAPIV3Schema"], "spec.versions[0].schema.openAPIV3Schema")

In a *structural* schema every field has one type that is known without ``allOf``, ``anyOf``, ``oneOf`` and
``not``, so that unknown fields can be pruned and defaults filled in. There are three steps, each relying on
the one before: the form of keywords (``schema_keywords``), the structure (here), defaults and rules
(``schema_semantics``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.meta.fields import FieldError, child, element, entry
from pilothouse.meta.schema.formats import compile_pattern
from pilothouse.meta.schema.regular_expressions import MAX_SIZE, compile_expression, rough_size
from pilothouse.meta.schema.schema_json import INT_OR_STRING, from_json
from pilothouse.meta.schema.schema_keywords import keyword_problems
from pilothouse.meta.schema.schema_semantics import meaning_problems

Raw = Mapping[str, Any]
_SCALARS: Final = ("string", "integer", "number", "boolean")
MAX_PATTERNS: Final = 50_000_000
"""The size of all patterns of a schema, by ``rough_size``: some 500 ms to compile at worst."""
_FORBIDDEN_IN_JUNCTOR: Final = (
    "type", "additionalProperties", "default", "title", "description", "nullable",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
    "x-kubernetes-validations",
)  # fmt: skip


def structural_problems(raw: Any, path: str) -> list[FieldError]:
    """All problems of an ``openAPIV3Schema`` at this path."""
    found = keyword_problems(raw, path)
    if not found:
        found = list(_node(raw, path, "root"))
        found += _patterns(raw, path)
    if not found:
        found = list(meaning_problems(from_json(raw), path))
    return found


def _node(raw: Raw, path: str, level: str) -> Iterator[FieldError]:
    yield from _type(raw, path, level)
    yield from _extensions(raw, path)
    yield from _list(raw, path)
    if raw.get("type") == "array" and raw.get("items") is None:
        yield FieldError.required(child(path, "items"), "must be specified")
    additional = raw.get("additionalProperties")
    where = child(path, "additionalProperties")
    if additional is not None and additional is not True and raw.get("properties"):
        yield FieldError.forbidden(where, "additionalProperties and properties are mutually exclusive")
    elif additional and level == "root":
        yield FieldError.forbidden(where, "must not be used at the root")
    if level == "root" or raw.get("x-kubernetes-embedded-resource"):
        yield from _identity(raw, path, level)
    if level == "root" and raw.get("default") is not None:
        yield FieldError.forbidden(child(path, "default"), "must not be set at the root")
    for name, each in (raw.get("properties") or {}).items():
        yield from _node(each, entry(child(path, "properties"), name), "field")
    if isinstance(additional, dict):
        yield from _node(additional, where, "field")
    if raw.get("items") is not None:
        yield from _node(raw["items"], child(path, "items"), "item")
    yield from _junctions(raw, path, int_or_string=True)
    if level == "root":
        yield from _incomplete(raw, raw, path, path)


def _junctors(raw: Raw, path: str) -> Iterator[tuple[str, Raw, str]]:
    """The schemas in a node's ``allOf``, ``anyOf``, ``oneOf`` and ``not``: keyword, schema, path."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(raw.get(keyword) or ()):
            yield keyword, each, element(child(path, keyword), index)
    if raw.get("not") is not None:
        yield "not", raw["not"], child(path, "not")


def _junctions(raw: Raw, path: str, *, int_or_string: bool = False) -> Iterator[FieldError]:
    """Problems inside junctors: they may limit values, but not declare fields.

    The exceptions are the two ways to write that a value is an integer or a string.
    """
    spelt_out = int_or_string and tuple(raw.get("anyOf") or ()) == INT_OR_STRING
    for keyword, each, where in _junctors(raw, path):
        if not (spelt_out and keyword == "anyOf"):
            yield from _junctor(each, where, int_or_string=int_or_string and where.endswith("allOf[0]"))


def _junctor(raw: Raw, path: str, *, int_or_string: bool = False) -> Iterator[FieldError]:
    for forbidden in _FORBIDDEN_IN_JUNCTOR:
        if raw.get(forbidden) not in (None, "", False):
            yield FieldError.forbidden(child(path, forbidden), "must be empty to be structural")
    for name, each in (raw.get("properties") or {}).items():
        yield from _junctor(each, entry(child(path, "properties"), name))
    if raw.get("items") is not None:
        yield from _junctor(raw["items"], child(path, "items"))
    yield from _junctions(raw, path, int_or_string=int_or_string)


def _incomplete(raw: Raw, structure: Raw, path: str, place: str) -> Iterator[FieldError]:
    """Fields that junctors mention and ``structure``, which they limit, doesn't declare."""
    for _, each, where in _junctors(raw, path):
        yield from _incomplete(each, structure, where, place)
        for name, inner in (each.get("properties") or {}).items():
            here, there = entry(child(where, "properties"), name), entry(child(place, "properties"), name)
            known = (structure.get("properties") or {}).get(name)
            if known is None:
                yield FieldError.required(there, f"because it is defined in {here}")
            else:
                yield from _incomplete({"allOf": [inner]}, known, here, there)


def _type(raw: Raw, path: str, level: str) -> Iterator[FieldError]:
    where, kind = child(path, "type"), (raw.get("type") or "")
    if not kind and not raw.get("x-kubernetes-int-or-string"):
        if raw.get("x-kubernetes-embedded-resource"):
            yield FieldError.required(where, "must be object if x-kubernetes-embedded-resource is true")
        elif level == "root":
            yield FieldError.required(where, "must not be empty at the root")
        elif not raw.get("x-kubernetes-preserve-unknown-fields"):
            what = "specified array items" if level == "item" else "specified object fields"
            yield FieldError.required(where, f"must not be empty for {what}")
    elif kind and kind not in (*_SCALARS, "object", "array"):
        yield FieldError.not_supported(
            where, kind, ("array", "boolean", "integer", "number", "object", "string")
        )
    elif level == "root" and kind != "object":
        yield FieldError.invalid(where, kind, "must be object at the root")


def _extensions(raw: Raw, path: str) -> Iterator[FieldError]:
    embedded = raw.get("x-kubernetes-embedded-resource")
    preserves = raw.get("x-kubernetes-preserve-unknown-fields")
    if preserves is False:
        where = child(path, "x-kubernetes-preserve-unknown-fields")
        yield FieldError.invalid(where, False, "must be true or undefined")
    if raw.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if raw.get(name):
                yield FieldError.invalid(
                    child(path, name), True, "must be false if x-kubernetes-int-or-string is true"
                )
    if embedded:
        if (raw.get("type") or "object") != "object":
            yield FieldError.invalid(
                child(path, "type"), raw["type"], "must be object if x-kubernetes-embedded-resource is true"
            )
        if raw.get("additionalProperties") is not None:
            yield FieldError.forbidden(
                child(path, "additionalProperties"),
                "must not be used if x-kubernetes-embedded-resource is set",
            )
        if not preserves and not raw.get("properties"):
            yield FieldError.required(
                child(path, "properties"),
                "must not be empty if x-kubernetes-embedded-resource is true without"
                " x-kubernetes-preserve-unknown-fields",
            )


def _identity(raw: Raw, path: str, level: str) -> Iterator[FieldError]:
    properties = raw.get("properties") or {}
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        if name in properties and properties[name].get("type") != wanted:
            where = child(entry(child(path, "properties"), name), "type")
            yield FieldError.invalid(where, (properties[name].get("type") or ""), f"must be {wanted}")
    metadata = properties.get("metadata") or {}
    if level == "root":
        said = metadata.keys() - {"type", "properties", "description"}
        if said or (metadata.get("properties") or {}).keys() - {"name", "generateName"}:
            yield FieldError.forbidden(
                entry(child(path, "properties"), "metadata"),
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified",
            )


def _list(raw: Raw, path: str) -> Iterator[FieldError]:
    kind, keys = (raw.get("x-kubernetes-list-type") or ""), (raw.get("x-kubernetes-list-map-keys") or [])
    where, where_keys = child(path, "x-kubernetes-list-type"), child(path, "x-kubernetes-list-map-keys")
    items = raw.get("items") or {}
    if kind and kind not in ("atomic", "set", "map"):
        yield FieldError.not_supported(where, kind, ("atomic", "map", "set"))
    if kind and raw.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is set"
        yield FieldError.invalid(child(path, "type"), (raw.get("type") or ""), detail)
    if (raw.get("x-kubernetes-map-type") or "") not in ("", "atomic", "granular"):
        where_map = child(path, "x-kubernetes-map-type")
        yield FieldError.not_supported(where_map, raw["x-kubernetes-map-type"], ("atomic", "granular"))
    elif raw.get("x-kubernetes-map-type") and raw.get("type") != "object":
        yield FieldError.invalid(
            child(path, "type"), (raw.get("type") or ""), "must be object if x-kubernetes-map-type is set"
        )
    if kind == "set":
        whole = items.get("x-kubernetes-map-type") == "atomic" or (
            items.get("type") == "array" and (items.get("x-kubernetes-list-type") or "atomic") == "atomic"
        )
        if items.get("nullable"):
            yield FieldError.forbidden(child(child(path, "items"), "nullable"), "must not be true in a set")
        if items.get("type") in ("object", "array") and not whole:
            yield FieldError.invalid(
                where, kind, "must not be set unless the items are scalars, or atomic maps or lists"
            )
    if kind != "map":
        if keys:
            yield FieldError.forbidden(where_keys, "must only be set if x-kubernetes-list-type is map")
        return
    if not keys:
        yield FieldError.required(where_keys, "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        yield FieldError.invalid(
            child(child(path, "items"), "type"),
            (items.get("type") or ""),
            "must be object in a list of type map",
        )
    properties, seen = (items.get("properties") or {}), set()
    for index, key in enumerate(keys):
        where_key = element(where_keys, index)
        there = entry(child(child(path, "items"), "properties"), key)
        if key in seen:
            yield FieldError.duplicate(where_key, key)
        elif key not in properties:
            yield FieldError.invalid(where_key, key, "must be a property of the items")
        elif properties[key].get("type") not in _SCALARS and not properties[key].get(
            "x-kubernetes-int-or-string"
        ):
            yield FieldError.invalid(
                child(there, "type"), (properties[key].get("type") or ""), "must be a scalar"
            )
        elif properties[key].get("nullable"):
            yield FieldError.forbidden(child(there, "nullable"), "must not be true for a list-map key")
        elif key not in (items.get("required") or ()) and properties[key].get("default") is None:
            yield FieldError.required(
                child(there, "default"), f"{key} is a list-map key, so it must be required or have a default"
            )
        seen.add(key)


def _patterns(raw: Raw, path: str) -> Iterator[FieldError]:
    """Patterns that are no regular expressions, or too many or too large to compile."""
    left = MAX_PATTERNS
    for where, pattern in _all_patterns(raw, path):
        left -= rough_size(pattern)
        if rough_size(pattern) <= MAX_SIZE and left < 0:
            detail = "the patterns of a schema are too large together; shorten them, or repeat fewer times"
            yield FieldError.invalid(where, pattern, detail)
            return
        try:
            compile_expression(pattern)
            compile_pattern(pattern)
        except ValueError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield FieldError.invalid(where, pattern, detail)


def _all_patterns(raw: Raw, path: str) -> Iterator[tuple[str, str]]:
    if raw.get("pattern"):
        yield child(path, "pattern"), raw["pattern"]
    for name, each in (raw.get("properties") or {}).items():
        yield from _all_patterns(each, entry(child(path, "properties"), name))
    for keyword in ("additionalProperties", "items"):
        if isinstance(raw.get(keyword), dict):
            yield from _all_patterns(raw[keyword], child(path, keyword))
    for _, each, where in _junctors(raw, path):
        yield from _all_patterns(each, where)
