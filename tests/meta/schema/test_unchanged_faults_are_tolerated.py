"""An object that was stored before its schema became stricter can still be edited elsewhere."""

from __future__ import annotations

from typing import Any

from tests.meta.schema.databases import SCHEMA, database

from pilothouse.meta.schema.compiled_schema import CompiledSchema
from pilothouse.meta.schema.model import Schema, ValidationRule

DATABASE = CompiledSchema(SCHEMA)


def paths(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [fault.path for fault in DATABASE.validate(database(new), database(old))]


def test_an_unchanged_fault_passes_and_a_changed_one_does_not() -> None:
    assert paths({"owner": "x" * 30, "note": "new"}, {"owner": "x" * 30}) == []
    assert paths({"owner": "x" * 31}, {"owner": "x" * 30})[0] == "spec.owner"


def test_elements_of_map_lists_are_matched_by_key_wherever_they_stand() -> None:
    old = {"users": [{"name": "a", "role": "bad"}]}

    assert paths({"users": [{"name": "b"}, {"name": "a", "role": "bad"}]}, old) == []
    assert paths({"users": [{"name": "b", "role": "bad"}]}, old)[0] == "spec.users[0].role"


def test_elements_of_other_lists_have_no_identity() -> None:
    items = Schema(type="array", items=Schema(type="string", max_length=1))
    shape = CompiledSchema(Schema(type="object", properties={"x": items, "y": Schema(type="string")}))

    assert shape.validate({"x": ["long"], "y": "new"}, {"x": ["long"]}) == []
    assert [fault.path for fault in shape.validate({"x": ["long", "a"]}, {"x": ["long"]})] == ["x[0]"]


def test_true_is_not_the_same_as_one() -> None:
    shape = CompiledSchema(Schema(type="object", properties={"x": Schema(type="string")}))

    assert shape.validate({"x": True}, {"x": True}) == []
    assert shape.validate({"x": True}, {"x": 1}) != []


def test_a_rule_broken_by_what_did_not_change_is_tolerated() -> None:
    limited = Schema(type="integer", rules=(ValidationRule(rule="self < 5"),))
    shape = CompiledSchema(Schema(type="object", properties={"x": limited, "y": Schema(type="string")}))

    assert shape.validate({"x": 9, "y": "new"}, {"x": 9}) == []
    assert [fault.path for fault in shape.validate({"x": 9}, {"x": 8})] == ["x"]
