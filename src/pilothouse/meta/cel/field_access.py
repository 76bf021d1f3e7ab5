"""Resolves a rule's field accesses against the schema of ``self``, before it runs:

* a field that the schema doesn't have is an error when the schema is created;
* ``self.a__dash__b`` reads the field ``a-b`` (Kubernetes' escapes: see ``escape``);
* text of format ``date-time``, ``date``, ``duration`` or ``byte`` becomes a timestamp, duration or bytes, and
  a ``number`` a double even without a fraction.

Only the expression is rewritten, once; values stay as they were decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from pilothouse.meta.cel import ast
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.pruning import IDENTITY

KEYWORDS: Final = frozenset([
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
    "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
])  # fmt: skip
_SIGNS: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def escape(name: str) -> str:
    """The CEL identifier of a field; empty if a rule can't access it."""
    if name in KEYWORDS:
        return f"__{name}__"
    escaped = name
    for sign, word in _SIGNS:
        escaped = escaped.replace(sign, word)
    return escaped if escaped.isidentifier() and escaped.isascii() else ""


@dataclass(frozen=True, slots=True)
class FieldAccess:
    """What is known of a value: its schema, and whether it is wrapped in an optional."""

    schema: Schema
    optional: bool = False


Scope = Mapping[str, FieldAccess | None]


def resolve(tree: ast.Node, scope: Scope) -> tuple[ast.Node, list[str]]:
    """The tree as it runs on JSON, and the problems of its field accesses."""
    resolver = _Resolver()
    resolved, place = resolver.node(tree, scope)
    return _converted(resolved, place), resolver.problems


class _Resolver:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def value(self, tree: ast.Node, scope: Scope) -> ast.Node:
        """A node whose value is used, converted to its CEL type."""
        return _converted(*self.node(tree, scope))

    def node(self, tree: ast.Node, scope: Scope) -> tuple[ast.Node, FieldAccess | None]:
        match tree:
            case ast.IdentExpr(name):
                return tree, scope.get(name)
            case ast.SelectExpr(operand, field, test):
                inner, place = self.node(operand, scope)
                name, found = self.field(place, field)
                return ast.SelectExpr(inner, name, test), None if test else found
            case ast.CallExpr():
                return self.call(tree, scope)
            case ast.ListExpr(elements):
                return replace(tree, elements=tuple(self.value(each, scope) for each in elements)), None
            case ast.StructExpr(_, entries):
                return replace(tree, entries=tuple(self.entry(each, scope) for each in entries)), None
            case ast.Comprehension():
                return self.comprehension(tree, scope)
        return tree, None

    def entry(self, entry: ast.MapEntry, scope: Scope) -> ast.MapEntry:
        key = entry.key if isinstance(entry.key, str) else self.value(entry.key, scope)
        return replace(entry, key=key, value=self.value(entry.value, scope))

    def field(self, place: FieldAccess | None, field: str) -> tuple[str, FieldAccess | None]:
        """The JSON name of a field, and what is known of its value."""
        if place is None:
            return field, None
        schema = place.schema
        if schema.properties:
            name = _escaped(schema).get(field)
            if name is not None:
                return name, replace(place, schema=schema.properties[name])
            if schema.embedded_resource and field in IDENTITY:
                return field, None
            if schema.additional is None:
                self.problems.append(f"undefined field '{field}'")
                return field, None
        if schema.additional is not None:
            return field, replace(place, schema=schema.additional)
        if schema.type and schema.type != "object":
            self.problems.append(f"type '{schema.type}' does not support field selection of '{field}'")
        elif schema.type == "object" and not schema.preserve_unknown and not schema.embedded_resource:
            self.problems.append(f"undefined field '{field}'")
        return field, None

    def call(self, tree: ast.CallExpr, scope: Scope) -> tuple[ast.Node, FieldAccess | None]:
        if tree.function in ("_[_]", "_[?_]") and len(tree.args) == 2:
            inner, place = self.node(tree.args[0], scope)
            index = self.value(tree.args[1], scope)
            found = _element(place)
            if found is not None and tree.function == "_[?_]":
                found = replace(found, optional=True)
            return ast.CallExpr(tree.function, (inner, index)), found
        if tree.function == "_?._" and len(tree.args) == 2:
            inner, place = self.node(tree.args[0], scope)
            field = ast.literal_text(tree.args[1])
            if field is None:
                return ast.CallExpr(tree.function, (inner, tree.args[1])), None
            name, found = self.field(place, field)
            return ast.CallExpr(tree.function, (inner, ast.text(name))), found and replace(
                found, optional=True
            )
        if tree.function == "_?_:_" and len(tree.args) == 3:
            test = self.value(tree.args[0], scope)
            yes, place = self.node(tree.args[1], scope)
            no, other = self.node(tree.args[2], scope)
            if place is not None and (other is None or other == place):
                return ast.CallExpr(
                    tree.function, (test, yes, no)
                ), place if other == place or place.optional else None
            return ast.CallExpr(tree.function, (test, _converted(yes, place), _converted(no, other))), None
        if tree.target is not None:
            target, place = self.node(tree.target, scope)
            if place is not None and place.optional:
                args = tuple(self.value(arg, scope) for arg in tree.args)
                unwraps = tree.function in ("value", "orValue")
                return ast.CallExpr(tree.function, args, target), replace(
                    place, optional=False
                ) if unwraps else None
            args = tuple(self.value(arg, scope) for arg in tree.args)
            return ast.CallExpr(tree.function, args, _converted(target, place)), None
        if tree.function in ("optional.of", "optional.ofNonZeroValue") and len(tree.args) == 1:
            inner, place = self.node(tree.args[0], scope)
            return ast.CallExpr(tree.function, (inner,)), place and replace(place, optional=True)
        return replace(tree, args=tuple(self.value(arg, scope) for arg in tree.args)), None

    def comprehension(self, tree: ast.Comprehension, scope: Scope) -> tuple[ast.Node, FieldAccess | None]:
        over, place = self.node(tree.over, scope)
        start, carried = self.node(tree.start, scope)
        bound = isinstance(tree.over, ast.ListExpr) and not tree.over.elements
        inner: dict[str, FieldAccess | None] = {**scope}
        inner[tree.accumulator] = carried if bound else None
        if tree.second:
            inner[tree.variable], inner[tree.second] = None, _element(place)
        elif not bound:
            inner[tree.variable] = (
                _element(place) if place is not None and place.schema.type == "array" else None
            )
        result, found = self.node(tree.result, inner)
        return (
            replace(
                tree,
                over=over,
                start=start if bound else _converted(start, carried),
                condition=self.value(tree.condition, inner),
                step=tree.step if bound else self.value(tree.step, inner),
                result=result,
            ),
            found,
        )


def _element(place: FieldAccess | None) -> FieldAccess | None:
    if place is None or place.optional:
        return None
    inner = place.schema.items or place.schema.additional
    return FieldAccess(inner) if inner is not None else None


@lru_cache(maxsize=4096)
def _escaped(schema: Schema) -> Mapping[str, str]:
    return {escape(name): name for name in schema.properties}


def _converted(node: ast.Node, place: FieldAccess | None) -> ast.Node:
    """The node's value converted to the CEL type of its schema."""
    if place is None or place.optional or place.schema.nullable:
        return node
    match place.schema.type, place.schema.format:
        case "number", _:
            return ast.CallExpr("double", (node,))
        case "string", "date-time" | "datetime":
            return ast.CallExpr("timestamp", (node,))
        case "string", "date":
            return ast.CallExpr("timestamp", (ast.CallExpr("_+_", (node, ast.text("T00:00:00Z"))),))
        case "string", "duration":
            return ast.CallExpr("duration", (node,))
        case "string", "byte":
            return ast.CallExpr("base64.decode", (node,))
    return node
