"""Schemas of Kubernetes' own kinds, as strict as Kubernetes is.

    CompiledSchema(without_unique_keys(schema))

Their list types say how lists are merged, not that keys are unique: a container may set an environment
variable twice. Each kind checks itself what must be unique. In a user's CRD the schema is the check.
"""

from __future__ import annotations

from dataclasses import replace

from pilothouse.meta.schema.model import Schema


def without_unique_keys(schema: Schema) -> Schema:
    """The same schema without the check for unique list keys. Shared nodes stay shared."""
    known: dict[int, Schema] = {}

    def visit(node: Schema) -> Schema:
        if id(node) not in known:
            known[id(node)] = build(node)
        return known[id(node)]

    def build(node: Schema) -> Schema:
        properties = {name: visit(inner) for name, inner in node.properties.items()}
        items = visit(node.items) if node.items is not None else None
        additional = visit(node.additional) if node.additional is not None else None
        keyed = node.list_type == "map"
        if (
            not keyed
            and items is node.items
            and additional is node.additional
            and all(properties[name] is inner for name, inner in node.properties.items())
        ):
            return node
        return replace(
            node,
            properties=properties,
            items=items,
            additional=additional,
            component=visit(node.component) if node.component is not None else None,
            list_type="" if keyed else node.list_type,
            list_map_keys=() if keyed else node.list_map_keys,
        )

    return visit(schema)
