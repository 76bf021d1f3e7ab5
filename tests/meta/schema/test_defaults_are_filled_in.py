"""Defaults and nulls."""

from __future__ import annotations

from typing import Any

import pytest
from tests.meta.schema.databases import SCHEMA, database

from pilothouse.meta.schema.compiled_schema import CompiledSchema
from pilothouse.meta.schema.model import Schema

ROLE = Schema(type="string", default="ro")
USER = Schema(type="object", properties={"role": ROLE})


def filled(schema: Schema, value: Any) -> Any:
    obj = {"x": value} if value is not Ellipsis else {}
    CompiledSchema(Schema(type="object", properties={"x": schema})).default(obj)
    return obj.get("x", "absent")


def test_a_field_left_out_gets_its_default_also_in_list_items() -> None:
    obj = database({"users": [{"name": "u"}]})
    del obj["spec"]["replicas"]

    CompiledSchema(SCHEMA).default(obj)

    assert obj["spec"]["replicas"] == 1
    assert obj["spec"]["users"] == [{"name": "u", "role": "ro"}]


def test_null_is_dropped_unless_the_field_is_nullable() -> None:
    obj = database({"owner": None, "note": None, "replicas": None})

    CompiledSchema(SCHEMA).default(obj)

    assert obj == database({"note": None, "replicas": 1})


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (Schema(type="string", default="a"), None, "a"),
        (Schema(type="string", default="a", nullable=True), None, None),
        (Schema(type="string", default="a", nullable=True), ..., "a"),
        (Schema(type="string", default=""), ..., ""),
        (Schema(type="object", default={}, properties={"role": ROLE}), ..., {"role": "ro"}),
        (Schema(type="object", properties={"role": ROLE}), ..., "absent"),
        (
            Schema(type="object", additional=USER),
            {"a": {}, "b": {"role": "rw"}},
            {"a": {"role": "ro"}, "b": {"role": "rw"}},
        ),
        (Schema(type="array", items=Schema(type="array", items=USER)), [[{}]], [[{"role": "ro"}]]),
        (Schema(type="object", additional=Schema(type="string")), {"a": None, "b": "c"}, {"b": "c"}),
        (Schema(type="object", additional=ROLE), {"a": None}, {"a": "ro"}),
        (Schema(type="array", items=ROLE), [None, "rw"], ["ro", "rw"]),
        (Schema(type="object", preserve_unknown=True), {"a": None}, {"a": None}),
    ],
)
def test_each_kind_of_default(schema: Schema, value: Any, expected: Any) -> None:
    assert filled(schema, value) == expected


def test_a_default_is_never_shared_between_objects() -> None:
    shape = CompiledSchema(
        Schema(type="object", properties={"x": Schema(type="array", items=ROLE, default=["a"])})
    )
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    shape.default(one)
    one["x"].append("changed")
    shape.default(other)

    assert other == {"x": ["a"]}
