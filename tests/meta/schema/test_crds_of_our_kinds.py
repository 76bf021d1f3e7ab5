"""Our kinds as CustomResourceDefinitions."""

from __future__ import annotations

from tests.meta.schema.databases import SCHEMA

from pilothouse.meta.crd import crd_manifest
from pilothouse.meta.kind import Column, Kind, Resource, ScalePaths
from pilothouse.meta.schema.structural_schemas import structural_problems

V1 = Kind(
    group="nav.example.io",
    version="v1",
    name="Database",
    plural="databases",
    short_names=("db",),
    categories=("all",),
    schema=SCHEMA,
    status=True,
    scale=ScalePaths(selector=".status.selector"),
    columns=(
        Column(name="Engine", path=".spec.engine"),
        Column(name="Phase", path=".status.phase", priority=1),
        Column(name="Computed", cell=lambda obj, now: 1),
        Column(name="Age", type="date", path=".metadata.creationTimestamp"),
    ),
    selectable={"spec.engine": ".spec.engine"},
)
OLD = Kind(
    group="nav.example.io",
    version="v1alpha1",
    name="Database",
    plural="databases",
    schema=SCHEMA,
    deprecation="old",
)
DATABASES = Resource(kinds=(V1, OLD), storage="v1")


def test_the_stored_version_is_described_in_full() -> None:
    manifest = crd_manifest(DATABASES)
    [version] = manifest["spec"]["versions"]

    assert manifest["metadata"]["name"] == "databases.nav.example.io"
    assert manifest["spec"]["names"] == {
        "kind": "Database",
        "listKind": "DatabaseList",
        "plural": "databases",
        "singular": "database",
        "shortNames": ["db"],
        "categories": ["all"],
    }
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert [column["name"] for column in version["additionalPrinterColumns"]] == ["Engine", "Phase", "Age"]
    assert version["selectableFields"] == [{"jsonPath": ".spec.engine"}]
    schema = version["schema"]["openAPIV3Schema"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["properties"]["spec"]["x-kubernetes-validations"][1]["reason"] == "FieldValueForbidden"
    assert structural_problems(schema, "s") == []


def test_all_versions_have_one_that_is_stored() -> None:
    versions = crd_manifest(DATABASES, versions="all", conversion={"strategy": "None"})["spec"]["versions"]

    assert [(each["name"], each["storage"], each.get("deprecated", False)) for each in versions] == [
        ("v1", True, False),
        ("v1alpha1", False, True),
    ]


def test_descriptions_can_be_left_out() -> None:
    short = crd_manifest(DATABASES, descriptions=False)

    assert "A remark" not in str(short)
    assert short["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "note"
    ] == {
        "type": "string",
        "nullable": True,
    }
