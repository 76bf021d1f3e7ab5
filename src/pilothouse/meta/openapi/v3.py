"""The OpenAPI v3 document of a group and version.

    document = openapi_v3(kinds)

kubectl needs three things of it: a ``patch`` operation with ``x-kubernetes-group-version-kind`` and the query
parameter ``fieldValidation`` (to create or apply), the media types of its body (strategic merge only for
native kinds), and component schemas with group, version and kind (``kubectl explain``). Components are named
``io.example.nav.v1.Database``, or as the schema itself is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pilothouse.meta.kind import Kind, Subresource
from pilothouse.meta.object_meta import LIST_META
from pilothouse.meta.openapi.common_types import DELETE_OPTIONS, PATCH, SCALE, STATUS
from pilothouse.meta.openapi.parameters import (
    DELETE_QUERY,
    LIST_QUERY,
    NAME,
    NAMESPACE,
    PATCH_QUERY,
    PRETTY,
    WRITE_QUERY,
)
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.schema_json import Components, to_json

Json = dict[str, Any]
Types = Mapping[tuple[str, str, str], Schema]
"""Schemas by group, version and kind, for subresources of another kind."""

GVK: Final = "x-kubernetes-group-version-kind"
PREFIX: Final = "#/components/schemas/"
_JSON: Final = "application/json"
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_VERBS: Final = {"create": "post", "get": "get", "update": "put", "patch": "patch", "delete": "delete"}


def openapi_v3(kinds: Sequence[Kind], types: Types | None = None) -> Json:
    """The document of one group and version with these kinds."""
    document = _Document(types or {})
    for kind in kinds:
        document.add(kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Pilothouse", "version": kinds[0].api_version if kinds else "v1"},
        "paths": dict(sorted(document.paths.items())),
        "components": {
            "schemas": dict(sorted(document.components.schemas.items())),
            "securitySchemes": {"BearerToken": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"BearerToken": []}],
    }


def component_name(kind: Kind) -> str:
    """The name of a kind's component."""
    if kind.schema.ref:
        return kind.schema.ref
    group = ".".join(reversed(kind.group.split("."))) if kind.group else "io.k8s.api.core"
    return f"{group}.{kind.version}.{kind.name}"


def root_path(kind: Kind) -> str:
    """``/apis/nav.example.io/v1`` or ``/api/v1``."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


class _Document:
    def __init__(self, types: Types) -> None:
        self.paths: dict[str, Json] = {}
        self.components = Components(PREFIX)
        self.types = types

    def add(self, kind: Kind) -> None:
        one, many = self.declare(kind)
        root = root_path(kind)
        scope = "Namespaced" if kind.namespaced else ""
        base = (
            f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        )
        shared = [NAMESPACE] if kind.namespaced else []
        identity = _identity(kind.group, kind.version, kind.name)
        make = _Operations(kind, identity)

        collection: Json = {}
        if "list" in kind.verbs:
            collection["get"] = make.operation("list", f"list{make.stem}{scope}{kind.name}", LIST_QUERY, many)
        if "create" in kind.verbs:
            collection["post"] = make.operation(
                "post",
                f"create{make.stem}{scope}{kind.name}",
                WRITE_QUERY,
                one,
                body=_bodies(kind, one),
                created=True,
            )
        if "deletecollection" in kind.verbs:
            collection["delete"] = make.operation(
                "deletecollection",
                f"delete{make.stem}Collection{scope}{kind.name}",
                (*DELETE_QUERY, *LIST_QUERY),
                self.refer(STATUS),
                body={_JSON: self.refer(DELETE_OPTIONS)},
                optional_body=True,
            )
        self.path(base, shared, collection)

        single = self.object_operations(kind, make, scope, one, kind.verbs, "")
        self.path(f"{base}/{{name}}", [NAME, *shared], single)
        if kind.namespaced and "list" in kind.verbs:
            everywhere = make.operation(
                "list", f"list{make.stem}{kind.name}ForAllNamespaces", LIST_QUERY, many
            )
            self.path(f"{root}/{kind.plural}", [], {"get": everywhere})
        if kind.status:
            operations = self.object_operations(kind, make, scope, one, ("get", "update", "patch"), "Status")
            self.path(f"{base}/{{name}}/status", [NAME, *shared], operations)
        for sub in self.subresources(kind):
            reference = self.refer_kind(sub)
            other = _Operations(kind, _identity(sub.group, sub.version, sub.kind), stem=make.stem)
            suffix = "".join(part.capitalize() for part in sub.name.split("/"))
            operations = self.object_operations(kind, other, scope, reference, sub.verbs, suffix)
            self.path(f"{base}/{{name}}/{sub.name}", [NAME, *shared], operations)

    def declare(self, kind: Kind) -> tuple[Json, Json]:
        """The components of a kind and of its list, as references."""
        name, list_name = component_name(kind), component_name(kind) + "List"
        if kind.schema.ref:
            self.refer(kind.schema)
        else:
            self.components.schemas[name] = to_json(kind.schema, self.components)
        self.components.schemas[name][GVK] = [_identity(kind.group, kind.version, kind.name)]
        one = {"$ref": PREFIX + name}
        self.components.schemas[list_name] = {
            "type": "object",
            "description": f"A list of {kind.name} objects.",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": "Group and version of the list."},
                "kind": {"type": "string", "description": f"{kind.list_name}."},
                "metadata": self.refer(LIST_META),
                "items": {"type": "array", "description": "The objects.", "items": one},
            },
            GVK: [_identity(kind.group, kind.version, kind.list_name)],
        }
        return one, {"$ref": PREFIX + list_name}

    def object_operations(
        self, kind: Kind, make: _Operations, scope: str, one: Json, verbs: Iterable[str], suffix: str
    ) -> Json:
        found: Json = {}
        for verb in verbs:
            method = _VERBS.get(verb)
            if method is None or (verb == "create" and not suffix):
                continue
            label = {"get": "read", "update": "replace"}.get(verb, verb)
            operation_id = f"{label}{make.stem}{scope}{kind.name}{suffix}"
            match verb:
                case "get":
                    found[method] = make.operation(method, operation_id, (), one)
                case "patch":
                    body = {media: self.refer(PATCH) for media in _patch_types(kind)}
                    found[method] = make.operation(
                        method, operation_id, PATCH_QUERY, one, body=body, created=True
                    )
                case "delete":
                    found[method] = make.operation(
                        method,
                        operation_id,
                        DELETE_QUERY,
                        self.refer(STATUS),
                        body={_JSON: self.refer(DELETE_OPTIONS)},
                        optional_body=True,
                    )
                case _:
                    found[method] = make.operation(
                        method, operation_id, WRITE_QUERY, one, body=_bodies(kind, one), created=True
                    )
        return found

    def subresources(self, kind: Kind) -> Iterable[Subresource]:
        if kind.scale is not None:
            verbs = ("get", "update", "patch")
            yield Subresource(name="scale", group="autoscaling", version="v1", kind="Scale", verbs=verbs)
        yield from (each for each in kind.subresources if each.name not in ("status", "scale"))

    def refer_kind(self, sub: Subresource) -> Json:
        if (sub.group, sub.version, sub.kind) == ("autoscaling", "v1", "Scale"):
            return self.refer(SCALE)
        schema = self.types.get((sub.group, sub.version, sub.kind))
        if schema is None:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return to_json(schema, self.components)

    def refer(self, schema: Schema) -> Json:
        return self.components.refer(schema)

    def path(self, path: str, parameters: list[Json], operations: Json) -> None:
        if operations:
            self.paths[path] = {"parameters": [*parameters, PRETTY], **operations}


class _Operations:
    """Builds the operations of one kind."""

    def __init__(self, kind: Kind, identity: Json, stem: str = "") -> None:
        group = kind.group or "core"
        words = [*group.removesuffix(".k8s.io").replace("-", ".").split("."), kind.version]
        self.kind = kind
        self.identity = identity
        self.stem = stem or "".join(word[:1].upper() + word[1:] for word in words)
        self.tag = f"{group}_{kind.version}"

    def operation(
        self,
        action: str,
        operation_id: str,
        query: Iterable[Json],
        result: Json,
        *,
        body: Json | None = None,
        optional_body: bool = False,
        created: bool = False,
    ) -> Json:
        answer = {"description": "OK", "content": {_JSON: {"schema": result}}}
        responses: Json = {"200": answer}
        if created:
            responses["201"] = {**answer, "description": "Created"}
        if action == "delete":
            responses["202"] = {**answer, "description": "Accepted"}
        responses["401"] = {"description": "Unauthorized"}
        operation: Json = {
            "tags": [self.tag],
            "operationId": operation_id,
            "description": f"{action} {self.kind.name}",
            "responses": responses,
            "x-kubernetes-action": action,
            GVK: self.identity,
        }
        parameters = list(query)
        if parameters:
            operation["parameters"] = parameters
        if body is not None:
            operation["requestBody"] = {
                "content": {media: {"schema": schema} for media, schema in body.items()},
                "required": not optional_body,
            }
        return operation


def _identity(group: str, version: str, kind: str) -> Json:
    return {"group": group, "version": version, "kind": kind}


def _bodies(kind: Kind, schema: Json) -> Json:
    media = [_JSON, "application/yaml"]
    if kind.native:
        media.append("application/vnd.kubernetes.protobuf")
    return dict.fromkeys(media, schema)


def _patch_types(kind: Kind) -> tuple[str, ...]:
    return (*_PATCHES, _STRATEGIC) if kind.native else _PATCHES
