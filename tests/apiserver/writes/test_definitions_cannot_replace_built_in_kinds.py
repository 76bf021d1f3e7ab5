"""A definition whose names this server has itself is told so; the built-in kind and its objects stay as they are."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.core import CoreServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def definition(plural: str, kind: str, group: str) -> dict[str, Any]:
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }


@pytest.mark.parametrize(
    ("plural", "kind", "group"),
    [("pilots", "Pilot", "navigator.jetstack.io"), ("leases", "Lease", "coordination.k8s.io")],
)
def test_such_a_definition_is_not_accepted(server: CoreServer, plural: str, kind: str, group: str) -> None:
    served = server.core.catalog.resource(group, plural)
    created = server.send("POST", DEFINITIONS, definition(plural, kind, group)).expect(201)
    conditions = {each["type"]: each for each in created["status"]["conditions"]}
    assert conditions["Established"]["status"] == "False"
    assert "served by this server itself" in conditions["NamesAccepted"]["message"]
    server.settle()
    assert server.core.catalog.resource(group, plural) is served


def test_nor_does_a_forged_status_or_its_deletion_touch_the_kind(server: CoreServer) -> None:
    server.send("POST", LEASES, {"metadata": {"name": "a"}}).expect(201)
    server.send("POST", DEFINITIONS, definition("leases", "Lease", "coordination.k8s.io")).expect(201)
    path = f"{DEFINITIONS}/leases.coordination.k8s.io"
    served = server.core.catalog.resource("coordination.k8s.io", "leases")
    forged = server.send("GET", path).json
    for condition in forged["status"]["conditions"]:
        condition["status"] = "True"
    server.send("PUT", f"{path}/status", forged).expect(200)
    server.settle()
    assert server.core.catalog.resource("coordination.k8s.io", "leases") is served
    server.send("DELETE", path).expect(200)
    server.settle()
    assert server.send("GET", path).status == 404
    assert [each["metadata"]["name"] for each in server.send("GET", LEASES).json["items"]] == ["a"]
    assert server.core.catalog.resource("coordination.k8s.io", "leases") is served


def test_one_that_does_not_go_keeps_nothing_from_being_created(server: CoreServer) -> None:
    kept = definition("leases", "Lease", "coordination.k8s.io")
    kept["metadata"]["finalizers"] = ["example.com/kept"]
    server.send("POST", DEFINITIONS, kept).expect(201)
    path = f"{DEFINITIONS}/leases.coordination.k8s.io"
    server.send("DELETE", path).expect(200)
    server.settle()
    assert "deletionTimestamp" in server.send("GET", path).expect(200)["metadata"]
    server.send("POST", LEASES, {"metadata": {"name": "b"}}).expect(201)
