"""Node selectors in pods and volumes are refused where nothing could be selected by them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.kit.http import Http, Json

pytestmark = pytest.mark.conformance

TERMS: list[tuple[Json, str]] = [
    (
        {"matchExpressions": [{"key": "a", "operator": "Foo", "values": ["b"]}]},
        "matchExpressions[0].operator",
    ),
    ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "matchExpressions[0].values"),
    (
        {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
        "matchExpressions[0].values",
    ),
    (
        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]},
        "matchExpressions[0].values",
    ),
    ({"matchExpressions": [{"key": "a b", "operator": "Exists"}]}, "matchExpressions[0].key"),
    ({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}, "matchFields[0].operator"),
    (
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
        "matchFields[0].values",
    ),
    ({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["a"]}]}, "matchFields[0].key"),
]


def volume(affinity: Json) -> Json:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/srv"},
        "nodeAffinity": affinity,
    }
    return {"metadata": {"name": f"volume-{uuid.uuid4().hex[:8]}"}, "spec": spec}


def causes(status: Json) -> list[Any]:
    return [cause["field"] for cause in status["details"]["causes"]]


@pytest.mark.parametrize(("term", "field"), TERMS, ids=[f"{each[1]}-{n}" for n, each in enumerate(TERMS)])
async def test_a_term_that_cant_be_read_is_refused(http: Http, ns: str, term: Json, field: str) -> None:
    required = {"nodeSelectorTerms": [term]}
    status = (await http.post("/api/v1/persistentvolumes", volume({"required": required}))).expect(422)
    assert causes(status) == [f"spec.nodeAffinity.required.nodeSelectorTerms[0].{field}"]

    await http.post(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "default"}})
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    pod = {
        "metadata": {"name": "a"},
        "spec": {
            "containers": [{"name": "a", "image": "a"}],
            "affinity": {"nodeAffinity": {name: required}},
        },
    }
    status = (await http.post(f"/api/v1/namespaces/{ns}/pods", pod)).expect(422)
    assert causes(status) == [f"spec.affinity.nodeAffinity.{name}.nodeSelectorTerms[0].{field}"]


async def test_where_a_volume_can_be_used_does_not_change(http: Http) -> None:
    def on(host: str) -> Json:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
        return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}

    made = (await http.post("/api/v1/persistentvolumes", volume(on("a")))).expect(201)
    path = f"/api/v1/persistentvolumes/{made['metadata']['name']}"
    status = (await http.patch(path, {"spec": {"nodeAffinity": on("b")}})).expect(422)
    assert causes(status) == ["nodeAffinity"]
    status = (await http.post("/api/v1/persistentvolumes", volume({}))).expect(422)
    assert "spec.nodeAffinity.required" in causes(status)
    (await http.delete(path)).expect(200)
