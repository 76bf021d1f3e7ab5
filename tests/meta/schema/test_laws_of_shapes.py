"""What holds of every schema and every object."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.meta.schema.compiled_schema import CompiledSchema
from pilothouse.meta.schema.model import ANY, UNSET, Schema, ValidationRule
from pilothouse.meta.schema.schema_json import from_json, to_json
from pilothouse.meta.schema.structural_schemas import structural_problems
from pilothouse.meta.schema.validation import faults

NAMES = st.sampled_from(["a", "b", "c", "x-y"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, -2.0, 1e20]),
    st.sampled_from(
        ["", "a", "aa", "b", "é", "2024-01-01T00:00:00Z", "2024-02-29T12:00:00.5+01:00", "10.0.0.1"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)

_BOUNDS = {
    "minimum": st.none() | st.integers(-2, 2),
    "maximum": st.none() | st.integers(-2, 2),
    "exclusive_minimum": st.booleans(),
    "multiple_of": st.sampled_from([None, None, 1, 0.5, 2]),
}
_TEXTS = {
    "min_length": st.none() | st.integers(0, 2),
    "max_length": st.none() | st.integers(0, 2),
    "pattern": st.sampled_from(["", "", "^a*$", "[[:alpha:]]"]),
    "format": st.sampled_from(["", "", "date-time", "ipv4", "odd"]),
}


def node(**said: Any) -> st.SearchStrategy[Schema]:
    return st.builds(Schema, nullable=st.booleans(), **said)


LIMITS = st.one_of(
    st.builds(Schema, minimum=st.integers(-2, 2)),
    st.builds(Schema, max_length=st.integers(0, 2)),
    st.builds(Schema, enum=st.just(("a", 1))),
)
JUNCTORS = {
    "any_of": st.just(()) | st.tuples(LIMITS, LIMITS),
    "one_of": st.just(()) | st.tuples(LIMITS, LIMITS),
    "all_of": st.just(()) | st.tuples(LIMITS),
    "not_": st.none() | LIMITS,
}
LEAVES = st.one_of(
    node(type=st.just("string"), default=st.just(UNSET) | st.just("a"), **_TEXTS),
    node(type=st.just("string"), enum=st.just(("a", "b")), default=st.just(UNSET) | st.just("b")),
    node(
        type=st.just("integer"),
        format=st.sampled_from(["", "int32", "int64"]),
        default=st.just(UNSET) | st.just(1),
        **_BOUNDS,
    ),
    node(type=st.just("number"), **_BOUNDS, **JUNCTORS),
    node(type=st.just("boolean"), default=st.just(UNSET) | st.just(False)),
    node(int_or_string=st.just(True), **JUNCTORS),
    st.just(ANY),
)


def branches(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    objects = node(
        type=st.just("object"),
        properties=st.dictionaries(NAMES, inner, max_size=3),
        required=st.sampled_from([(), ("a",), ("a", "b")]),
        preserve_unknown=st.booleans(),
        embedded_resource=st.booleans(),
        default=st.just(UNSET) | st.just({}),
        max_properties=st.none() | st.integers(0, 3),
    )
    maps = node(type=st.just("object"), additional=inner, min_properties=st.none() | st.integers(0, 2))
    lists = node(
        type=st.just("array"),
        items=inner,
        list_type=st.sampled_from(["", "atomic", "set"]),
        max_items=st.none() | st.integers(0, 2),
    )
    keyed = node(
        type=st.just("array"),
        items=st.builds(
            Schema, type=st.just("object"), properties=st.fixed_dictionaries({"a": LEAVES, "b": inner})
        ),
        list_type=st.just("map"),
        list_map_keys=st.sampled_from([("a",), ("a", "b")]),
    )
    return st.one_of(objects, maps, lists, keyed)


NODES = st.recursive(LEAVES, branches, max_leaves=6)
SCHEMAS = st.builds(
    Schema,
    type=st.just("object"),
    properties=st.dictionaries(NAMES, NODES, max_size=4),
    preserve_unknown=st.booleans(),
)
KNOWN = settings(deadline=None, max_examples=250)


def copy(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def tree(schema: Schema) -> Any:
    """A schema as plain data, to be compared."""
    return to_json(schema)


@KNOWN
@given(SCHEMAS, OBJECTS)
def test_what_is_accepted_has_nothing_to_prune_no_null_to_drop_and_no_faults(
    schema: Schema, obj: dict[str, Any]
) -> None:
    shape = CompiledSchema(schema)
    if shape.accepts(obj):
        before = copy(obj)
        assert shape.prune(obj) == []
        assert obj == before
        assert faults(schema, obj) == []
        assert shape.validate(obj) == []


@KNOWN
@given(SCHEMAS, OBJECTS)
def test_pruning_twice_prunes_no_more(schema: Schema, obj: dict[str, Any]) -> None:
    shape = CompiledSchema(schema)
    shape.prune(obj)
    once = copy(obj)
    assert shape.prune(obj) == []
    assert obj == once


@KNOWN
@given(SCHEMAS, OBJECTS)
def test_filling_in_defaults_twice_fills_in_no_more(schema: Schema, obj: dict[str, Any]) -> None:
    shape = CompiledSchema(schema)
    shape.default(obj)
    once = copy(obj)
    shape.default(obj)
    assert obj == once


@KNOWN
@given(SCHEMAS, OBJECTS)
def test_an_object_that_did_not_change_has_no_faults(schema: Schema, obj: dict[str, Any]) -> None:
    assert faults(schema, obj, copy(obj)) == []


@KNOWN
@given(SCHEMAS, OBJECTS)
def test_an_object_without_faults_and_unknown_fields_is_accepted_once_defaulted(
    schema: Schema, obj: dict[str, Any]
) -> None:
    shape = CompiledSchema(schema)
    shape.prune(obj)
    shape.default(obj)
    if not faults(schema, obj) and "null" not in msgspec.json.encode(obj).decode():
        plain = "+" not in str(obj) and "02-29" not in str(obj) and "1.0" not in str(obj)
        assert shape.accepts(obj) or not plain


@KNOWN
@given(SCHEMAS)
def test_a_schema_survives_being_written_and_read(schema: Schema) -> None:
    raw = to_json(schema)
    assert tree(from_json(copy(raw))) == raw


@KNOWN
@given(
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "properties",
                        "items",
                        "default",
                        "anyOf",
                        "required",
                        "enum",
                        "x-kubernetes-validations",
                        "rule",
                        "a",
                    ]
                ),
                inner | st.sampled_from(["object", "string", "array"]),
                max_size=4,
            )
        ),
        max_leaves=10,
    )
)
def test_whatever_is_sent_as_a_schema_gets_an_answer(raw: Any) -> None:
    problems = structural_problems(raw, "s")
    if not problems:
        CompiledSchema(from_json(raw)).accepts({})
    assert all(problem.path.startswith("s") for problem in problems)


def test_a_rule_survives_being_written_and_read() -> None:
    rule = ValidationRule(
        rule="self > 1",
        message="m",
        message_expression="'x'",
        reason="FieldValueRequired",
        field_path=".a",
        optional_old_self=True,
    )
    schema = Schema(type="integer", rules=(rule,))
    assert tree(from_json(to_json(schema))) == to_json(schema)
    assert to_json(schema)["x-kubernetes-validations"][0]["optionalOldSelf"] is True
