"""Each fault of an object has Kubernetes' reason, path and words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.meta.schema.databases import SCHEMA, database

from pilothouse.meta.fields import FieldError
from pilothouse.meta.schema.compiled_schema import CompiledSchema
from pilothouse.meta.schema.model import Schema

DATABASE = CompiledSchema(SCHEMA)


def faults(spec: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
    return DATABASE.validate(database(spec), None if old is None else database(old))


def one(node: Schema, value: Any) -> list[str]:
    """What is wrong with a value, in a field named ``x``."""
    shape = CompiledSchema(Schema(type="object", properties={"x": node}))
    return [f"{fault.reason} {fault}" for fault in shape.validate({"x": value})]


@pytest.mark.parametrize(
    ("spec", "reason", "path", "message"),
    [
        (
            {"engine": "zz"},
            "FieldValueNotSupported",
            "spec.engine",
            'Unsupported value: "zz": supported values: "pg", "mysql"',
        ),
        (
            {"replicas": 101},
            "FieldValueInvalid",
            "spec.replicas",
            "Invalid value: 101: spec.replicas in body should be less than or equal to 100",
        ),
        (
            {"owner": 5},
            "FieldValueTypeInvalid",
            "spec.owner",
            'Invalid value: "integer": spec.owner in body must be of type string: "integer"',
        ),
        ({"owner": "x" * 21}, "FieldValueTooLong", "spec.owner", "Too long: may not be more than 20 bytes"),
        ({"replicas": 10}, "FieldValueForbidden", "spec.replicas", "Forbidden: at most nine"),
        ({"tags": ["x", "x"]}, "FieldValueDuplicate", "spec.tags[1]", 'Duplicate value: "x"'),
        (
            {"users": [{"name": "u1"}, {"name": "u1", "role": "rw"}]},
            "FieldValueDuplicate",
            "spec.users[1]",
            'Duplicate value: {"name":"u1"}',
        ),
        ({"users": [{"role": "ro"}]}, "FieldValueRequired", "spec.users[0].name", "Required value"),
    ],
)
def test_a_fault_has_reason_path_and_message(
    spec: dict[str, Any], reason: str, path: str, message: str
) -> None:
    first = faults(spec)[0]

    assert (first.reason, first.path, first.message) == (reason, path, message)


def test_every_fault_is_listed() -> None:
    found = faults({"engine": "zz", "owner": 5, "replicas": -1})

    assert [fault.path for fault in found] == ["spec.engine", "spec.replicas", "spec.owner", "<nil>"]


def test_a_missing_field_is_required() -> None:
    obj = database()
    del obj["spec"]["engine"]

    assert str(DATABASE.validate(obj)[0]) == "spec.engine: Required value"


@pytest.mark.parametrize(
    ("node", "value", "fault"),
    [
        (
            Schema(type="integer"),
            True,
            'TypeInvalid x: Invalid value: "boolean": x in body must be of type integer',
        ),
        (
            Schema(type="boolean"),
            1,
            'TypeInvalid x: Invalid value: "integer": x in body must be of type boolean',
        ),
        (
            Schema(type="integer"),
            1.5,
            'TypeInvalid x: Invalid value: "number": x in body must be of type integer',
        ),
        (Schema(type="string", nullable=False, enum=("a",)), "b", 'NotSupported x: Unsupported value: "b"'),
        (Schema(type="integer", minimum=3, exclusive_minimum=True), 3, "x in body should be greater than 3"),
        (Schema(type="number", maximum=2.5), 3, "x in body should be less than or equal to 2.5"),
        (Schema(type="integer", multiple_of=5), 7, "x in body should be a multiple of 5"),
        (Schema(type="string", min_length=2), "é", "x in body should be at least 2 chars long"),
        (Schema(type="string", pattern="^a+$"), "ab", "x in body should match '^a+$'"),
        (
            Schema(type="array", items=Schema(type="string"), max_items=1),
            ["a", "b"],
            "TooMany x: Too many: 2",
        ),
        (Schema(type="array", items=Schema(type="string"), min_items=1), [], "should have at least 1 items"),
        (
            Schema(type="object", additional=Schema(type="string"), min_properties=1),
            {},
            "at least 1 properties",
        ),
        (Schema(type="object", additional=Schema(type="string"), max_properties=0), {"a": "b"}, "TooMany x"),
        (
            Schema(type="object", additional=Schema(type="string")),
            {"a": 1},
            "x.a in body must be of type string",
        ),
        (Schema(int_or_string=True), 1.5, "x in body must be of type integer,string"),
        (Schema(type="integer", format="int32"), 2**31, "x in body must fit int32"),
        (
            Schema(type="integer", any_of=(Schema(minimum=9), Schema(maximum=1))),
            5,
            "at least one schema (anyOf)",
        ),
        (
            Schema(type="integer", one_of=(Schema(minimum=1), Schema(minimum=2))),
            5,
            "Found 2 valid alternatives",
        ),
        (
            Schema(type="integer", all_of=(Schema(minimum=6), Schema(minimum=1))),
            5,
            "greater than or equal to 6",
        ),
        (Schema(type="integer", not_=Schema(minimum=1)), 5, "must not validate the schema (not)"),
        (Schema(type="string", format="date-time"), "noon", 'must be of type date-time: "noon"'),
    ],
)
def test_each_limit_is_checked(node: Schema, value: Any, fault: str) -> None:
    assert fault in "\n".join(one(node, value))


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (Schema(type="integer"), 1.0),
        (Schema(type="number"), 1),
        (Schema(int_or_string=True), "80%"),
        (Schema(int_or_string=True), 80),
        (Schema(type="string", nullable=True), None),
        (Schema(type="string", max_length=2), "éé"),
        (Schema(type="string", pattern="[[:alpha:]]"), "1a2"),
        (Schema(type="number", multiple_of=0.1), 0.3),
        (Schema(type="integer", one_of=(Schema(minimum=1), Schema(maximum=0))), 5),
        (Schema(preserve_unknown=True), {"any": ["thing"]}),
        (Schema(type="string", format="no-such-format"), "anything"),
    ],
)
def test_what_is_in_order_has_no_faults(node: Schema, value: Any) -> None:
    assert one(node, value) == []


def test_an_object_nested_beyond_reason_gets_a_clear_error_and_no_stack_overflow() -> None:
    deep: dict[str, Any] = {}
    for _ in range(50_000):
        deep = {"a": deep}

    found = DATABASE.validate(database({"extra": deep, "owner": 5}))

    assert "must not be nested more than 256 levels deep" in str(found[0])
