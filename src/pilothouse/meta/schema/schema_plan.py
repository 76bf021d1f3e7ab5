"""A plan: the part of a schema that leads to nodes one cares about.

    defaults = make_plan(schema, lambda node: node.default is not UNSET)

Whoever visits an object by a plan looks only where something can be found: a kind with two defaults costs two look-ups,
however large it is. ``None`` means that there is nothing to visit at all.
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
    """The plan for the nodes that ``wanted`` is true of. Nodes inside ``allOf`` and its kin are never visited."""
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
