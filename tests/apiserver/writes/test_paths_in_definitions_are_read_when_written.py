"""A column or selectable field whose path can't be followed is refused with the definition, not met by whoever lists."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.core import CoreServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(**version: Any) -> dict[str, Any]:
    properties = {"engine": {"type": "string"}, "size": {"type": "integer"}, "deep": {"type": "object"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    whole = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.odd.example.io"},
        "spec": {"group": "odd.example.io", "scope": "Cluster", "names": names, "versions": [whole]},
    }


@pytest.mark.parametrize("path", [".spec.[", ".spec[::0]", ".spec[", "x y", ".spec.a" * 500])
def test_columns(server: CoreServer, path: str) -> None:
    columns = [{"name": "A", "type": "string", "jsonPath": path}]
    status = server.send("POST", DEFINITIONS, definition(additionalPrinterColumns=columns)).expect(422)
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert fields == ["spec.versions[0].additionalPrinterColumns[0].jsonPath"]


@pytest.mark.parametrize(
    "path", [".spec.[", ".spec.deep", ".spec.nothing", ".spec.engine[0]", "..engine", "spec.engine"]
)
def test_selectable_fields(server: CoreServer, path: str) -> None:
    fields = [{"jsonPath": path}]
    status = server.send("POST", DEFINITIONS, definition(selectableFields=fields)).expect(422)
    assert status["details"]["causes"][0]["field"] == "spec.versions[0].selectableFields[0].jsonPath"


def test_what_can_be_followed_is_served(server: CoreServer) -> None:
    columns = [{"name": "A", "type": "string", "jsonPath": ".spec.deep[?(@.x=='y')].z"}]
    fields = [{"jsonPath": ".spec.engine"}, {"jsonPath": ".spec.size"}]
    server.send(
        "POST", DEFINITIONS, definition(additionalPrinterColumns=columns, selectableFields=fields)
    ).expect(201)
    server.settle()
    query = "fieldSelector=spec.engine%3Dpg,spec.size%3D3"
    server.send("GET", "/apis/odd.example.io/v1/things", query=query).expect(200)


@pytest.mark.parametrize("rule", [{"message": "too large"}, {"rule": ""}])
def test_a_validation_needs_a_rule(server: CoreServer, rule: dict[str, str]) -> None:
    items = {"type": "object", "x-kubernetes-validations": [{"rule": "true"}, rule]}
    schema = {"type": "object", "properties": {"spec": {"type": "array", "items": items}}}
    status = server.send("POST", DEFINITIONS, definition(schema={"openAPIV3Schema": schema})).expect(422)
    assert status["details"]["causes"][0]["field"] == (
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].items.x-kubernetes-validations[1].rule"
    )
