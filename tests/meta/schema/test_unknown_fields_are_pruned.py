"""What the schema doesn't know goes, and its path is told."""

from __future__ import annotations

from tests.meta.schema.databases import SCHEMA, database

from pilothouse.meta.object_meta import object_schema
from pilothouse.meta.schema.compiled_schema import CompiledSchema
from pilothouse.meta.schema.model import ANY, Schema

TEXT = Schema(type="string")


def test_unknown_fields_in_metadata_list_items_and_spec_are_named() -> None:
    obj = database({"zap": 1, "users": [{"name": "u", "q": 1}]})
    obj["metadata"]["zork"] = 1

    assert CompiledSchema(SCHEMA).prune(obj) == ["metadata.zork", "spec.users[0].q", "spec.zap"]
    assert obj == database({"users": [{"name": "u"}]})


def test_where_unknown_fields_are_kept_they_stay_whatever_they_hold() -> None:
    obj = database({"extra": {"a": {"b": [{"c": None}]}}})

    assert CompiledSchema(SCHEMA).accepts(obj)
    assert CompiledSchema(SCHEMA).prune(obj) == []


def test_fields_specified_below_a_keeping_node_are_still_pruned() -> None:
    inner = Schema(type="object", properties={"known": TEXT})
    schema = Schema(
        type="object",
        properties={"x": Schema(type="object", preserve_unknown=True, properties={"in": inner})},
    )
    obj = {"x": {"other": {"deep": 1}, "in": {"known": "a", "unknown": 1}}}

    assert CompiledSchema(schema).prune(obj) == ["x.in.unknown"]
    assert obj == {"x": {"other": {"deep": 1}, "in": {"known": "a"}}}


def test_an_embedded_resource_keeps_its_identity() -> None:
    embedded = Schema(type="object", embedded_resource=True, properties={"spec": Schema(type="object")})
    schema = Schema(type="object", properties={"template": embedded})
    obj = {
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}, "y": 1}
    }

    assert CompiledSchema(schema).prune(obj) == ["template.spec.x", "template.y"]


def test_map_values_are_pruned_by_their_schema() -> None:
    schema = Schema(type="object", additional=Schema(type="object", properties={"a": TEXT}))
    obj = {"one": {"a": "x", "b": "y"}, "two": {}}

    assert CompiledSchema(schema).prune(obj) == ["one.b"]


def test_a_crd_gets_the_metadata_that_every_object_has() -> None:
    shape = CompiledSchema(object_schema({"spec": ANY}))
    obj = {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {
            "name": "a",
            "ownerReferences": [{"apiVersion": "v1", "kind": "P", "name": "p", "uid": "1", "x": 1}],
        },
        "spec": {"anything": True},
    }

    assert shape.prune(obj) == ["metadata.ownerReferences[0].x"]
    assert shape.accepts(obj)
