"""The kinds that the numbered cases are written about: `Database`, namespaced and in two versions, and `Region`.

await install(http)                        # the two definitions, served when it returns
dbs = Databases(http, namespace="t-1")
await dbs.create("a", replicas=2)
(await http.get(dbs.at("a"))).json
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.kit.http import Http, Json
from tests.kit.waiting import eventually

GROUP = "nav.example.io"
V1 = f"{GROUP}/v1"
V1ALPHA1 = f"{GROUP}/v1alpha1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_STRING = {"type": "string"}

_STATUS: Json = {
    "type": "object",
    "properties": {
        "phase": _STRING,
        "replicas": {"type": "integer"},
        "selector": _STRING,
        "observedGeneration": {"type": "integer", "format": "int64"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {"type": _STRING, "status": _STRING, "reason": _STRING},
            },
        },
    },
}

_SPEC: Json = {
    "type": "object",
    "description": "What the database should be.",
    "required": ["engine"],
    "x-kubernetes-validations": [{"rule": "self.engine == oldSelf.engine", "message": "engine is immutable"}],
    "properties": {
        "engine": {"type": "string", "enum": ["pg", "mysql"], "description": "The program that runs."},
        "replicas": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100,
            "default": 1,
            "x-kubernetes-validations": [
                {"rule": "self <= 9", "message": "at most nine replicas", "reason": "FieldValueForbidden"}
            ],
        },
        "owner": {"type": "string", "maxLength": 20},
        "users": {
            "type": "array",
            "description": "Who may log in.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": _STRING, "role": {"type": "string", "default": "ro"}},
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
        "note": {"type": "string", "nullable": True},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def _version(name: str, spec: Json, **more: Any) -> Json:
    schema = {
        "type": "object",
        "description": f"A database, {name}.",
        "properties": {"spec": spec, "status": _STATUS},
    }
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Engine", "type": "string", "jsonPath": ".spec.engine"},
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        **more,
    }


# The old version does not declare `note`, but keeps what it does not know: an edit through it must not lose a
# field that only the new version describes.
_OLD_SPEC: Json = {
    **_SPEC,
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {name: schema for name, schema in _SPEC["properties"].items() if name != "note"},
}

DATABASE: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"databases.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "databases",
            "singular": "database",
            "kind": "Database",
            "listKind": "DatabaseList",
            "shortNames": ["db"],
            "categories": ["all"],
        },
        "versions": [
            # Given to both versions alike, real servers take it for a field of the whole and refuse it.
            _version("v1", _SPEC, selectableFields=[{"jsonPath": ".spec.engine"}]),
            _version(
                "v1alpha1",
                _OLD_SPEC,
                deprecated=True,
                deprecationWarning=f"{V1ALPHA1} Database is deprecated; use {V1} Database",
            ),
        ],
    },
}

REGION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"regions.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"plural": "regions", "singular": "region", "kind": "Region", "shortNames": ["rg"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"location": _STRING}}},
                    }
                },
            }
        ],
    },
}


def database(name: str, *, version: str = V1, metadata: Json | None = None, **spec: Any) -> Json:
    """The smallest valid Database, with what the test is about on top."""
    return {
        "apiVersion": version,
        "kind": "Database",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"engine": "pg", **spec},
    }


@dataclass(frozen=True)
class Databases:
    """The Databases of one namespace."""

    http: Http
    namespace: str

    def path(self, version: str = "v1") -> str:
        return f"/apis/{GROUP}/{version}/namespaces/{self.namespace}/databases"

    def at(self, name: str, subresource: str = "", *, version: str = "v1") -> str:
        return "/".join(filter(None, [self.path(version), name, subresource]))

    async def create(self, name: str, *, metadata: Json | None = None, **spec: Any) -> Json:
        answer = await self.http.post(self.path(), database(name, metadata=metadata, **spec))
        return answer.expect(201)

    async def read(self, name: str) -> Json:
        return (await self.http.get(self.at(name))).expect(200)

    async def names(self, **query: Any) -> list[str]:
        listed = (await self.http.get(self.path(), **query)).expect(200)
        return [item["metadata"]["name"] for item in listed["items"]]

    async def revision(self) -> str:
        """The store's revision, as a list tells it."""
        listed = (await self.http.get(self.path(), limit=1)).expect(200)
        return str(listed["metadata"]["resourceVersion"])


async def install(http: Http) -> None:
    """Create both definitions and wait until every way to learn of them knows them."""
    for definition in (DATABASE, REGION):
        await define(http, definition)


async def define(http: Http, definition: Json) -> None:
    """Create a definition, unless it is there, and wait until it is served, discovered and published."""
    answer = await http.post(DEFINITIONS, definition)
    if answer.status != 409:
        answer.expect(201)
    spec = definition["spec"]
    versions = [version["name"] for version in spec["versions"]]

    async def is_served() -> bool:
        for version in versions:
            listed = await http.get(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")
            if listed.status != 200:
                return False
            published = await http.get(f"/openapi/v3/apis/{spec['group']}/{version}")
            if published.status != 200 or f".{spec['names']['kind']}" not in published.text:
                return False
        return True

    await eventually(is_served)


def manifest(*objects: Json) -> str:
    """Objects as text for `kubectl -f -`; JSON documents are YAML documents."""
    return "\n---\n".join(json.dumps(item) for item in objects)
