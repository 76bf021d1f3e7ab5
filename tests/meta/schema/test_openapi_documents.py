"""What kubectl and other clients read in the OpenAPI documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from tests.meta.schema.databases import SCHEMA

from pilothouse.meta.kind import Kind, ScalePaths, Subresource
from pilothouse.meta.object_meta import object_schema
from pilothouse.meta.openapi.v2 import openapi_v2
from pilothouse.meta.openapi.v3 import openapi_v3
from pilothouse.meta.schema.model import ANY, Schema

DATABASE = Kind(
    group="nav.example.io",
    version="v1",
    name="Database",
    plural="databases",
    schema=SCHEMA,
    status=True,
    scale=ScalePaths(),
    subresources=(
        Subresource(name="backup", group="nav.example.io", version="v1", kind="Backup", verbs=("create",)),
    ),
)
REGION = Kind(
    group="nav.example.io",
    version="v1",
    name="Region",
    plural="regions",
    namespaced=False,
    schema=object_schema({"spec": ANY}),
)
REVIEW = Kind(
    group="",
    version="v1",
    name="Review",
    plural="reviews",
    schema=object_schema({}),
    verbs=("create",),
    native=True,
)
DOCUMENT = openapi_v3([DATABASE, REGION])
ROOT = "/apis/nav.example.io/v1"
ONE = f"{ROOT}/namespaces/{{namespace}}/databases/{{name}}"
IDENTITY = {"group": "nav.example.io", "version": "v1", "kind": "Database"}


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        operation
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    return [found for value in node for found in references(value)] if isinstance(node, list) else []


def test_kubectl_finds_field_validation_on_the_patch_of_a_kind() -> None:
    patch = DOCUMENT["paths"][ONE]["patch"]

    assert patch["x-kubernetes-group-version-kind"] == IDENTITY
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-action"] == "patch"


def test_strategic_merge_is_offered_for_native_kinds_alone() -> None:
    native = Kind(group="", version="v1", name="Pod", plural="pods", schema=object_schema({}), native=True)
    pods = openapi_v3([native])["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"][
        "requestBody"
    ]["content"]
    databases = DOCUMENT["paths"][ONE]["patch"]["requestBody"]["content"]

    assert "application/strategic-merge-patch+json" in pods
    assert sorted(databases) == [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ]


def test_explain_finds_the_component_and_what_it_refers_to() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    database = schemas["io.example.nav.v1.Database"]

    assert database["x-kubernetes-group-version-kind"] == [IDENTITY]
    spec = schemas["io.example.nav.v1.DatabaseSpec"]
    assert database["properties"]["spec"] == {
        "description": "The desired state.",
        "allOf": [{"$ref": "#/components/schemas/io.example.nav.v1.DatabaseSpec"}],
    }
    assert spec["required"] == ["engine"]
    assert spec["properties"]["users"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["x-kubernetes-validations"][0]["rule"] == "self.engine == oldSelf.engine"
    assert schemas["io.example.nav.v1.Region"]["properties"]["metadata"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]
    assert (
        schemas["io.example.nav.v1.DatabaseList"]["x-kubernetes-group-version-kind"][0]["kind"]
        == "DatabaseList"
    )


def test_each_verb_has_its_path() -> None:
    found = {path: sorted(set(item) - {"parameters"}) for path, item in DOCUMENT["paths"].items()}

    assert found == {
        f"{ROOT}/databases": ["get"],
        f"{ROOT}/namespaces/{{namespace}}/databases": ["delete", "get", "post"],
        ONE: ["delete", "get", "patch", "put"],
        f"{ONE}/status": ["get", "patch", "put"],
        f"{ONE}/scale": ["get", "patch", "put"],
        f"{ONE}/backup": ["post"],
        f"{ROOT}/regions": ["delete", "get", "post"],
        f"{ROOT}/regions/{{name}}": ["delete", "get", "patch", "put"],
    }
    scale = DOCUMENT["paths"][f"{ONE}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
    }


def test_a_kind_that_is_only_answered_has_only_create() -> None:
    assert list(openapi_v3([REVIEW])["paths"]) == ["/api/v1/namespaces/{namespace}/reviews"]


@pytest.mark.parametrize("document", [DOCUMENT, openapi_v3([REVIEW]), openapi_v2([DOCUMENT])])
def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document.get("definitions") or document["components"]["schemas"]

    assert {reference.rpartition("/")[2] for reference in references(document)} <= set(schemas)
    assert references(document)


@pytest.mark.parametrize("document", [DOCUMENT, openapi_v2([DOCUMENT])])
def test_operations_are_told_apart_and_tell_of_401(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for operation in operations(document)]

    assert len(set(ids)) == len(ids)
    assert all("401" in operation["responses"] for operation in operations(document))


def test_the_components_are_valid_json_schema() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        document = {"$defs": {name: schema}, "components": DOCUMENT["components"], "type": "object"}
        assert jsonschema_rs.Draft4Validator(document).is_valid({}), name


def test_version_2_joins_documents_and_says_only_what_it_can() -> None:
    document = openapi_v2([DOCUMENT, openapi_v3([REVIEW])])

    assert document["swagger"] == "2.0"
    assert "/api/v1/namespaces/{namespace}/reviews" in document["paths"]
    patch = document["paths"][ONE]["patch"]
    assert "application/merge-patch+json" in patch["consumes"]
    assert [each["in"] for each in patch["parameters"]].count("body") == 1
    note = document["definitions"]["io.example.nav.v1.DatabaseSpec"]["properties"]["note"]
    assert "nullable" not in note


def test_version_2_gives_no_type_to_what_may_be_null_or_anything() -> None:
    schema = object_schema(
        {
            "spec": Schema(
                type="object",
                properties={
                    "note": Schema(type="string", nullable=True, description="A note."),
                    "free": Schema(
                        type="object", preserve_unknown=True, properties={"a": Schema(type="string")}
                    ),
                    "list": Schema(type="array"),
                    "size": Schema(type="integer"),
                },
                required=("note", "size"),
            )
        }
    )
    kind = replace(REGION, schema=schema)
    spec = openapi_v2([openapi_v3([kind])])["definitions"]["io.example.nav.v1.Region"]["properties"]["spec"]

    assert spec["required"] == ["size"]
    assert spec["properties"] == {
        "note": {"description": "A note."},
        "free": {"x-kubernetes-preserve-unknown-fields": True},
        "list": {},
        "size": {"type": "integer"},
    }


def test_how_a_reference_is_patched_stands_beside_it() -> None:
    used = replace(SCHEMA.properties["spec"], merge_strategy="replace")
    kind = replace(REGION, schema=object_schema({"spec": used}))
    document = openapi_v3([kind])
    name = "io.example.nav.v1.Region"

    assert (
        document["components"]["schemas"][name]["properties"]["spec"]["x-kubernetes-patch-strategy"]
        == "replace"
    )
    found = openapi_v2([document])["definitions"][name]["properties"]["spec"]
    assert found["x-kubernetes-patch-strategy"] == "replace"
    assert found["$ref"].startswith("#/definitions/")
