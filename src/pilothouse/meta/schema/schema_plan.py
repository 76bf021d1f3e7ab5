"""A plan: the part of a schema that leads to certain nodes.

    defaults = make_plan(schema, lambda node: node.default is not UNSET)

Visiting an object by a plan costs as much as there are such nodes, however large the kind. ``None``: there
are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pilothouse.meta.schema.model import Schema


@dataclass(frozen=True, slots=True, eq=False)
class SchemaPlan:
    """A node that is wanted, or that has wanted nodes below it."""

    schema: Schema
    wanted: bool
    properties: tuple[tuple[str, SchemaPlan], ...]
    additional: SchemaPlan | None
    items: SchemaPlan | None


def make_plan(schema: Schema, wanted: Callable[[Schema], bool]) -> SchemaPlan | None:
    """The plan for nodes of which ``wanted`` is true, outside ``allOf``, ``anyOf``, ``oneOf`` and ``not``."""
    known: dict[int, SchemaPlan | None] = {}

    def visit(node: Schema) -> SchemaPlan | None:
        # A component that is used in many places is planned once.
        if id(node) not in known:
            known[id(node)] = build(node)
        return known[id(node)]

    def build(node: Schema) -> SchemaPlan | None:
        pairs = ((name, visit(child)) for name, child in node.properties.items())
        properties = tuple((name, plan) for name, plan in pairs if plan is not None)
        additional = visit(node.additional) if node.additional is not None else None
        items = visit(node.items) if node.items is not None else None
        hit = wanted(node)
        if not hit and not properties and additional is None and items is None:
            return None
        return SchemaPlan(node, hit, properties, additional, items)

    return visit(schema)
