"""How a kind is written as Structs."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from tests.meta.schema.databases import SCHEMA, Database

from pilothouse.meta.object_meta import OBJECT_META
from pilothouse.meta.schema.model import UNSET
from pilothouse.meta.schema.schema_json import to_json
from pilothouse.meta.schema.struct_schemas import Fields, IntOrString, Quantity, Time, doc, field, schema_of


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Fields):
    """Inside."""

    size: Annotated[int, doc("How big.")] = 3


class Everything(Fields):
    """One of each."""

    color: Color
    inner: Annotated[Inner, doc("Used here.", default={})] = field(default_factory=Inner)
    inners: dict[str, Inner] = field(default_factory=dict)
    level: Literal[1, 2] = 1
    port: IntOrString | None = None
    memory: Quantity | None = None
    at: Time | None = None
    moment: datetime | None = None
    ratio: Annotated[float, doc(gt=0, le=1)] = 0.5
    cluster_ip: Annotated[str, doc("An address.")] = field(name="clusterIP", default="")
    names: list[Annotated[str, doc(max_length=9)]] = field(default_factory=list)
    anything: Any = None
    blob: bytes = b""
    zero: Annotated[int, doc("Filled in.", default=0)] = 0


def test_each_type_has_its_schema() -> None:
    raw = to_json(schema_of(Everything))

    assert raw["required"] == ["color"]
    assert raw["properties"] == {
        "color": {"type": "string", "enum": ["red", "blue"]},
        "inner": {
            "type": "object",
            "description": "Used here.",
            "default": {},
            "properties": {
                "size": {"type": "integer", "format": "int64", "description": "How big.", "default": 3}
            },
        },
        "inners": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "description": "Inside.",
                "properties": {
                    "size": {"type": "integer", "format": "int64", "description": "How big.", "default": 3}
                },
            },
        },
        "level": {"type": "integer", "enum": [1, 2], "default": 1},
        "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
        "memory": raw["properties"]["memory"],
        "at": {"type": "string", "format": "date-time"},
        "moment": {"type": "string", "format": "date-time"},
        "ratio": {
            "type": "number",
            "format": "double",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 1,
            "default": 0.5,
        },
        "clusterIP": {"type": "string", "description": "An address."},
        "names": {"type": "array", "items": {"type": "string", "maxLength": 9}},
        "anything": {"x-kubernetes-preserve-unknown-fields": True},
        "blob": {"type": "string", "format": "byte"},
        "zero": {"type": "integer", "format": "int64", "description": "Filled in.", "default": 0},
    }
    assert raw["properties"]["memory"]["x-kubernetes-int-or-string"] is True
    assert "format" not in raw["properties"]["memory"]


def test_a_default_of_zero_only_makes_a_field_optional() -> None:
    assert SCHEMA.properties["spec"].properties["tags"].default is UNSET
    assert SCHEMA.properties["spec"].properties["replicas"].default == 1


def test_nested_structs_are_components_of_the_package() -> None:
    users = SCHEMA.properties["spec"].properties["users"]
    assert users.items is not None
    assert users.items.ref == "io.example.nav.v1.User"
    assert SCHEMA.properties["metadata"].ref == OBJECT_META.ref


def test_the_same_struct_decodes_objects() -> None:
    database = msgspec.json.decode(
        b'{"metadata":{"name":"a"},"spec":{"engine":"pg","users":[{"name":"u"}]}}', type=Database
    )
    assert (database.metadata.name, database.spec.replicas, database.spec.users[0].role) == ("a", 1, "ro")
    assert (
        msgspec.json.encode(database)
        == b'{"metadata":{"name":"a"},"spec":{"engine":"pg","users":[{"name":"u"}]}}'
    )


def test_an_object_beyond_its_limits_can_still_be_read() -> None:
    database = msgspec.json.decode(b'{"spec":{"engine":"pg","replicas":500}}', type=Database)
    assert database.spec.replicas == 500


class Loop(Fields):
    again: dict[str, Loop] = field(default_factory=dict)


class Undecided(Fields):
    maybe: str | None


class Unknown(Fields):
    what: complex


@pytest.mark.parametrize(
    ("struct", "problem"),
    [(Loop, "contains itself"), (Undecided, "needs a default"), (Unknown, "no schema for")],
)
def test_what_has_no_schema_is_an_error_that_names_the_field(struct: type[Fields], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        schema_of(struct)
