"""``/scale`` reads fields that a definition names; an object in which they are missing or odd gets a 422 with the path."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.core import CoreServer

GROUP = "fuzz.example.io"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
ANY = {"x-kubernetes-preserve-unknown-fields": True}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANY, "status": ANY}}},
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.size.wanted",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".spec.selector",
                    }
                },
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({}, "spec.size.wanted"),
        ({"spec": {"size": {"wanted": "many"}}}, "spec.size.wanted"),
        ({"spec": {"size": {"wanted": True}}}, "spec.size.wanted"),
        ({"spec": {"size": {"wanted": 1}}, "status": {"size": [2]}}, "status.size"),
        ({"spec": {"size": {"wanted": 1}, "selector": [1]}}, "spec.selector"),
        ({"spec": {"size": {"wanted": 1}, "selector": {"matchLabels": [1]}}}, "spec.selector"),
    ],
    ids=str,
)
def test_reading_names_the_field(server: CoreServer, content: dict[str, Any], field: str) -> None:
    server.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).expect(201)
    server.settle()
    widget = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, **content}
    server.send("POST", WIDGETS, widget).expect(201)
    status = server.send("GET", f"{WIDGETS}/a/scale").expect(422)
    assert status["details"]["causes"][0]["field"] == field


def test_writing_does_not_replace_what_is_no_object(server: CoreServer) -> None:
    server.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).expect(201)
    server.settle()
    widget = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}}
    server.send("POST", WIDGETS, {**widget, "spec": {"size": "large"}}).expect(201)
    before = server.revision
    status = server.send("PUT", f"{WIDGETS}/a/scale", {"spec": {"replicas": 3}}).expect(422)
    assert status["details"]["causes"][0]["field"] == "spec.size.wanted"
    assert server.revision == before


def test_a_custom_kind_takes_no_strategic_patch_of_its_scale(server: CoreServer) -> None:
    server.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).expect(201)
    server.settle()
    widget = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"size": {"wanted": 1}},
    }
    server.send("POST", WIDGETS, widget).expect(201)
    wanted = {"spec": {"replicas": 2}}
    path = f"{WIDGETS}/a/scale"
    server.send("PATCH", path, wanted, type="application/strategic-merge-patch+json").expect(415)
    server.send("PATCH", path, wanted, type="application/merge-patch+json").expect(200)
