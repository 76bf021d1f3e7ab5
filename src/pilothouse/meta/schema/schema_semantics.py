"""Checks a schema's defaults and rules.

A default must be valid by its schema and have no field that would be pruned. A rule must compile, its
``fieldPath`` must exist, and a rule with ``oldSelf`` must not be below a list whose elements have no
identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pilothouse.meta import fields
from pilothouse.meta.cel.expressions import CelError, CelExpression, compile_message, compile_rule
from pilothouse.meta.fields import FieldError, child, element, entry
from pilothouse.meta.object_meta import object_schema
from pilothouse.meta.schema.defaulting import Defaults
from pilothouse.meta.schema.model import UNSET, Schema, ValidationRule
from pilothouse.meta.schema.pruning import prune
from pilothouse.meta.schema.validation import faults

_REASONS: Final = (fields.DUPLICATE, fields.FORBIDDEN, fields.INVALID, fields.REQUIRED)
_STEP: Final = re.compile(r"\.([A-Za-z_][\w-]*)|\['((?:[^'\\]|\\.)+)'\]", re.ASCII)
MAX_MESSAGE: Final = 2048
MAX_SOURCES: Final = 100_000
"""Characters of all rules together: compiling them takes about 500 ms."""


def meaning_problems(schema: Schema, path: str) -> Iterator[FieldError]:
    """The problems of a structural schema's defaults and rules."""
    if _source_size(schema) > MAX_SOURCES:
        detail = f"the rules of a schema must not be longer than {MAX_SOURCES} characters together"
        yield FieldError.invalid(path, "object", detail)
        return
    yield from _node(schema, path, matched=True, root=True)


def _source_size(schema: Schema) -> int:
    own = sum(len(rule.rule) + len(rule.message_expression) for rule in schema.rules)
    below = [*schema.properties.values(), schema.additional, schema.items]
    return own + sum(_source_size(each) for each in below if each is not None)


def _node(schema: Schema, path: str, *, matched: bool, root: bool = False) -> Iterator[FieldError]:
    if schema.default is not UNSET:
        yield from _default(schema, child(path, "default"))
    seen = object_schema(schema) if root else schema
    yield from _rules(schema, seen, path, matched)
    for name, each in schema.properties.items():
        yield from _node(each, entry(child(path, "properties"), name), matched=matched)
    if schema.additional is not None:
        yield from _node(schema.additional, child(path, "additionalProperties"), matched=matched)
    if schema.items is not None:
        yield from _node(schema.items, child(path, "items"), matched=matched and schema.list_type == "map")


def _default(schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.default is None:
        return
    value = {"default": msgspec.json.decode(msgspec.json.encode(schema.default))}
    holder = Schema(type="object", properties={"default": schema})
    for unknown in prune(holder, value):
        yield FieldError.invalid(
            path + unknown.removeprefix("default"),
            schema.default,
            "must not have fields that would be pruned",
        )
    Defaults(holder).fill(value)
    for fault in faults(holder, value):
        yield fault._replace(path=path + fault.path.removeprefix("default"))


def _rules(schema: Schema, seen: Schema, path: str, matched: bool) -> Iterator[FieldError]:
    for index, rule in enumerate(schema.rules):
        yield from _rule(rule, seen, element(child(path, "x-kubernetes-validations"), index), matched)


def _rule(rule: ValidationRule, schema: Schema, path: str, matched: bool) -> Iterator[FieldError]:
    where = child(path, "rule")
    if not rule.rule.strip():
        yield FieldError.required(where, "must be a CEL expression")
        return
    compiled: CelExpression | None = None
    try:
        compiled = compile_rule(rule.rule, schema, optional_old=rule.optional_old_self)
    except CelError as error:
        yield _failed(where, rule.rule, error)
    if compiled is not None and compiled.uses_old and not matched:
        yield FieldError.invalid(
            where,
            rule.rule,
            "oldSelf cannot be used below a list unless its x-kubernetes-list-type is map: "
            "old and new elements can't be matched",
        )
    if compiled is not None and rule.optional_old_self and not compiled.uses_old:
        yield FieldError.invalid(
            child(path, "optionalOldSelf"), True, "may not be set to true if oldSelf is not used in rule"
        )
    if rule.message_expression:
        try:
            compile_message(rule.message_expression, schema, optional_old=rule.optional_old_self)
        except CelError as error:
            yield _failed(child(path, "messageExpression"), rule.message_expression, error)
    yield from _said(rule, path)
    if rule.field_path and not leads_to_field(schema, rule.field_path):
        yield FieldError.invalid(
            child(path, "fieldPath"), rule.field_path, "must lead to a field, as .spec.replicas or ['a-b'] do"
        )


def _said(rule: ValidationRule, path: str) -> Iterator[FieldError]:
    where = child(path, "message")
    if rule.message and not rule.message.strip():
        yield FieldError.invalid(where, rule.message, "message must be non-empty if specified")
    elif "\n" in rule.message.strip():
        yield FieldError.invalid(where, rule.message, "message must not contain line breaks")
    elif len(rule.message) > MAX_MESSAGE:
        yield FieldError.too_long(where, MAX_MESSAGE)
    elif "\n" in rule.rule.strip() and not rule.message:
        yield FieldError.required(where, "message must be specified if rule contains line breaks")
    if rule.reason and rule.reason not in _REASONS:
        yield FieldError.not_supported(child(path, "reason"), rule.reason, _REASONS)


def _failed(path: str, source: str, error: CelError) -> FieldError:
    return FieldError.invalid(path, source, f"compilation failed: {error}")


def leads_to_field(schema: Schema, path: str) -> bool:
    """True if a ``fieldPath`` leads from the node to an existing field."""
    position = 0
    node: Any = schema
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None or node is None:
            return False
        name = step.group(1) or re.sub(r"\\(.)", r"\1", step.group(2))
        node = node.properties.get(name, node.additional)
        position = step.end()
    return node is not None
