"""The kind that these tests are about, once as Structs and once as a CRD's schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pilothouse.meta.object_meta import ApiObject
from pilothouse.meta.schema.model import ValidationRule
from pilothouse.meta.schema.struct_schemas import Fields, Int32, doc, field, schema_of


class User(Fields):
    """A login of the database."""

    name: Annotated[str, doc("Its name.", min_length=1, max_length=63)]
    role: Annotated[Literal["ro", "rw"], doc("What it may do.")] = "ro"


class DatabaseSpec(Fields):
    """What the database should be like."""

    __rules__ = (
        ValidationRule(rule="self.engine == oldSelf.engine", message="engine is immutable"),
        ValidationRule(
            rule="self.replicas <= 9",
            message="at most nine",
            reason="FieldValueForbidden",
            field_path=".replicas",
        ),
    )

    engine: Annotated[Literal["pg", "mysql"], doc("The engine; it can't be changed.")]
    replicas: Annotated[Int32, doc("How many instances run.", ge=0, le=100)] = 1
    owner: Annotated[str | None, doc("Who to call.", max_length=20)] = None
    users: Annotated[tuple[User, ...], doc("Who may log in.", map_keys=("name",))] = ()
    tags: Annotated[frozenset[str], doc("Free words.")] = frozenset()
    note: Annotated[str | None, doc("A remark.", nullable=True)] = None
    extra: Annotated[dict[str, Any], doc("Passed on as it is.")] = field(default_factory=dict)


class DatabaseStatus(Fields):
    """What the database is like."""

    phase: Annotated[str, doc("How far it is.")] = ""


class Database(ApiObject):
    """A database."""

    spec: Annotated[DatabaseSpec, doc("The desired state.")]
    status: Annotated[DatabaseStatus | None, doc("The state seen.")] = None


SCHEMA = schema_of(Database, "io.example.nav.v1")


def database(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A valid database, with the given changes to its spec."""
    return {
        "apiVersion": "nav.example.io/v1",
        "kind": "Database",
        "metadata": {"name": "a", "namespace": "t"},
        "spec": {"engine": "pg", "replicas": 1, **(spec or {})},
        **more,
    }
