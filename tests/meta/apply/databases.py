"""The ``Database`` of the numbered cases as a schema, and a tiny server that only applies and updates.

db = Databases()
db.apply("m1", replicas=2)
db.update("upd", lambda obj: obj["spec"].update(replicas=3))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.meta.apply.field_sets import paths
from pilothouse.meta.apply.managed_fields import reset_fields, track_update
from pilothouse.meta.apply.server_side_apply import apply
from pilothouse.meta.object_meta import object_schema
from pilothouse.meta.schema.model import Schema

V1 = "nav.example.io/v1"
STRING = Schema(type="string")
INTEGER = Schema(type="integer")

USER = Schema(
    type="object",
    properties={
        "name": STRING,
        "role": Schema(type="string", default="ro"),
        "limits": Schema(type="object", additional=INTEGER),
    },
)
SPEC = Schema(
    type="object",
    properties={
        "engine": STRING,
        "replicas": Schema(type="integer", default=1),
        "owner": STRING,
        "users": Schema(type="array", list_type="map", list_map_keys=("name",), items=USER),
        "ports": Schema(
            type="array",
            list_type="map",
            list_map_keys=("port", "protocol"),
            items=Schema(
                type="object",
                properties={
                    "port": INTEGER,
                    "protocol": Schema(type="string", default="TCP"),
                    "title": STRING,
                },
            ),
        ),
        "tags": Schema(type="array", list_type="set", items=STRING),
        "args": Schema(type="array", items=STRING),
        "point": Schema(type="object", map_type="atomic", properties={"x": INTEGER, "y": INTEGER}),
        "settings": Schema(type="object", additional=STRING),
        "groups": Schema(
            type="object", additional=Schema(type="object", properties={"size": INTEGER, "kind": STRING})
        ),
        "note": Schema(type="string", nullable=True),
        "extra": Schema(type="object", preserve_unknown=True),
    },
)
STATUS = Schema(type="object", properties={"phase": STRING, "replicas": INTEGER})
SCHEMA = object_schema({"spec": SPEC, "status": STATUS})


def database(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A whole object, as a client sends it."""
    obj: dict[str, Any] = {"apiVersion": V1, "kind": "Database", "metadata": {"name": "a", "namespace": "t"}}
    if spec is not None:
        obj["spec"] = spec
    return {**obj, **more}


def copy(obj: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(obj))


class Databases:
    """One stored Database; each write moves the clock by a second."""

    def __init__(self) -> None:
        self.live: dict[str, Any] | None = None
        self.tick = 0

    def now(self) -> str:
        self.tick += 1
        return f"2024-01-01T00:{self.tick // 60:02d}:{self.tick % 60:02d}Z"

    def apply(
        self, manager: str, *, force: bool = False, subresource: str = "", **spec: Any
    ) -> dict[str, Any]:
        return self.apply_object(manager, database(spec), force=force, subresource=subresource)

    def apply_object(
        self, manager: str, patch: dict[str, Any], *, force: bool = False, subresource: str = ""
    ) -> dict[str, Any]:
        self.live = apply(
            self.live,
            patch,
            schema=SCHEMA,
            api_version=V1,
            manager=manager,
            force=force,
            subresource=subresource,
            now=self.now(),
            reset=reset_fields(SCHEMA, subresource, has_status=True),
        )
        return self.live

    def update(
        self, manager: str, change: Callable[[dict[str, Any]], Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        new = database({}) if self.live is None else copy(self.live)
        change(new)
        track_update(
            self.live,
            new,
            schema=SCHEMA,
            api_version=V1,
            manager=manager,
            subresource=subresource,
            now=self.now(),
            reset=reset_fields(SCHEMA, subresource, has_status=True),
        )
        self.live = new
        return new

    @property
    def spec(self) -> dict[str, Any]:
        assert self.live is not None
        spec: dict[str, Any] = self.live.get("spec", {})
        return spec

    @property
    def entries(self) -> list[dict[str, Any]]:
        assert self.live is not None
        entries: list[dict[str, Any]] = self.live["metadata"].get("managedFields", [])
        return entries

    def owned(self, manager: str, operation: str = "Apply", subresource: str = "") -> list[str]:
        """The readable paths that a manager owns."""
        for entry in self.entries:
            if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (
                manager,
                operation,
                subresource,
            ):
                return list(paths(entry["fieldsV1"]))
        return []
