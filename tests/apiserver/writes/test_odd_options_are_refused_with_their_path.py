"""The small objects that go with a verb (DeleteOptions, Eviction, Binding, TokenRequest, Scale) are checked like any other."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.core import CoreServer

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
MERGE = "application/merge-patch+json"


@pytest.fixture
def pod(server: CoreServer) -> str:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    server.send("POST", PODS, {"metadata": {"name": "a"}, "spec": spec}).expect(201)
    return f"{PODS}/a"


ODD_OPTIONS: list[dict[str, Any]] = [
    {"gracePeriodSeconds": "soon"},
    {"gracePeriodSeconds": -1},
    {"gracePeriodSeconds": 1.5},
    {"gracePeriodSeconds": True},
    {"gracePeriodSeconds": 2**70},
    {"gracePeriodSeconds": [1]},
    {"propagationPolicy": "Sideways"},
    {"propagationPolicy": ["Orphan"]},
    {"orphanDependents": "yes"},
    {"orphanDependents": True, "propagationPolicy": "Orphan"},
    {"preconditions": "uid"},
    {"preconditions": {"uid": 7}},
    {"preconditions": {"resourceVersion": {}}},
    {"dryRun": "All"},
    {"dryRun": ["Some"]},
]


@pytest.mark.parametrize("odd", ODD_OPTIONS, ids=str)
def test_delete_options(server: CoreServer, pod: str, odd: dict[str, Any]) -> None:
    before = server.revision
    for method, path, body in (
        ("DELETE", pod, odd),
        ("DELETE", PODS, odd),
        ("POST", f"{pod}/eviction", {"deleteOptions": odd}),
    ):
        status = server.send(method, path, body).expect(422)
        assert next(iter(odd)) in status["details"]["causes"][-1]["field"] or "propagationPolicy" in odd
    assert server.revision == before


@pytest.mark.parametrize(
    ("binding", "code"),
    [
        ({"target": {"name": "A node!"}}, 422),
        ({"target": {"name": ["n"]}}, 400),
        ({"target": "n"}, 400),
        ({"target": {"name": "n", "kind": ["Node"]}}, 400),
        ({"target": {"name": "n"}, "metadata": {"annotations": ["x"]}}, 422),
        ({"target": {"name": "n"}, "metadata": {"annotations": {"a": 1}}}, 422),
        ({"target": {"name": "n"}, "metadata": []}, 201),
        ({"target": {"name": "n"}, "metadata": ["x"]}, 400),
        ({"target": {"name": "n"}, "metadata": {"uid": 1}}, 409),
    ],
    ids=str,
)
def test_bindings(server: CoreServer, pod: str, binding: dict[str, Any], code: int) -> None:
    server.send("POST", f"{pod}/binding", binding).expect(code)
    assert server.send("GET", pod).json["spec"].get("nodeName") == ("n" if code == 201 else None)


@pytest.mark.parametrize(
    "spec",
    [
        {"boundObjectRef": {"kind": ["Pod"], "name": "a"}},
        {"boundObjectRef": {"kind": {}, "name": "a"}},
        {"boundObjectRef": {"kind": "Pod", "name": 1}},
        {"boundObjectRef": "Pod"},
        {"audiences": "me"},
        {"audiences": [1]},
        {"expirationSeconds": "1h"},
        {"expirationSeconds": 2**40},
        {"expirationSeconds": 1},
    ],
    ids=str,
)
def test_token_requests(server: CoreServer, spec: dict[str, Any]) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    server.send("POST", accounts, {"metadata": {"name": "robot"}}).expect(201)
    status = server.send("POST", f"{accounts}/robot/token", {"spec": spec}).expect(422)
    assert status["details"]["causes"][0]["field"].startswith(f"spec.{next(iter(spec))}")


@pytest.mark.parametrize("replicas", ["2", 1.5, True, 2**31, -(2**40), [1], {}])
def test_scales(server: CoreServer, replicas: object) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template}
    server.send("POST", SETS, {"metadata": {"name": "a"}, "spec": spec}).expect(201)
    before = server.revision
    scale = {"spec": {"replicas": replicas}}
    server.send("PUT", f"{SETS}/a/scale", scale).expect(400)
    server.send("PATCH", f"{SETS}/a/scale", scale, type=MERGE).expect(400)
    assert server.revision == before


@pytest.mark.parametrize("finalizers", [["no spaces"], ["a/b/c"], [""]], ids=str)
def test_a_namespace_is_kept_by_proper_finalizers_only(server: CoreServer, finalizers: list[str]) -> None:
    server.send("POST", "/api/v1/namespaces", {"metadata": {"name": "t"}}).expect(201)
    body = {"metadata": {"name": "t"}, "spec": {"finalizers": finalizers}}
    status = server.send("PUT", "/api/v1/namespaces/t/finalize", body).expect(422)
    assert status["details"]["causes"][0]["field"] == "spec.finalizers[0]"
