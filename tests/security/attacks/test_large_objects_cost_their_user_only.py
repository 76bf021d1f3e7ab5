"""Valid objects of tens of thousands of fields, and invalid ones, as anyone with ``edit`` can write them: others are served
meanwhile, and what is said about them stays small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.core import CoreServer

from pilothouse.apiserver.server.messages import User

CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
JSON, YAML, STRATEGIC, APPLY = (
    "application/json",
    "application/yaml",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
LEAST = 20
"""Reads that are answered while such a write is under way. A write that holds the loop leaves a handful, before and after."""
LARGEST_REFUSAL = 2 * 1024 * 1024


@pytest.fixture(scope="module")
def server() -> Iterator[CoreServer]:
    with CoreServer() as running:
        running.send("POST", f"{CORE}/configmaps", named("small")).expect(201)
        running.send("POST", f"{CORE}/serviceaccounts", named("default")).expect(201)
        yield running


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def pod_spec(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **container}]}


ENV = [{"name": f"e{number}", "value": "v"} for number in range(20_000)]
LABELS = {"app": "x"}
LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "a pod": (f"{CORE}/pods", {"spec": pod_spec(env=ENV)}),
    "a set": (
        f"{APPS}/statefulsets",
        {
            "spec": {
                "serviceName": "s",
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS}, "spec": pod_spec(env=ENV)},
            }
        },
    ),
    "a config map": (f"{CORE}/configmaps", {"data": {f"k{number}": "v" for number in range(50_000)}}),
    "a service": (
        f"{CORE}/services",
        {"spec": {"ports": [{"name": f"p{number}", "port": number + 1} for number in range(10_000)]}},
    ),
    "endpoints": (
        f"{CORE}/endpoints",
        {
            "subsets": [
                {"addresses": [{"ip": f"10.1.{number >> 8}.{number & 255}"} for number in range(20_000)]}
            ]
        },
    ),
    "a role": (
        f"{RBAC}/roles",
        {
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": [f"n{number}"]}
                for number in range(10_000)
            ]
        },
    ),
}


@pytest.mark.parametrize("what", LARGE)
def test_others_are_answered_while_a_large_object_is_written(server: CoreServer, what: str) -> None:
    collection, fields = LARGE[what]
    read = f"{CORE}/configmaps/small"
    body = json.dumps(named("large", **fields)).encode()
    created, during_create = server.beside("POST", collection, body, type=JSON, read=read)
    assert created.status == 201, created.message
    label = json.dumps({"metadata": {"labels": {"a": "b"}}}).encode()
    at = f"{collection}/large"
    patched, during_patch = server.beside("PATCH", at, label, type=STRATEGIC, read=read)
    assert patched.status == 200, patched.message
    kind = {"apiVersion": created.json["apiVersion"], "kind": created.json["kind"]}
    whole = json.dumps({**kind, **named("large", **fields)}).encode()
    applied, during_apply = server.beside("PATCH", at, whole, type=APPLY, read=read)
    assert applied.status == 200, applied.message
    assert min(during_create, during_patch, during_apply) >= LEAST


SMALL = {
    "a review": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    "a token request": ("POST", f"{CORE}/serviceaccounts/default/token"),
    "a config map": ("POST", f"{CORE}/configmaps"),
    "options of a deletion": ("DELETE", f"{CORE}/configmaps/small"),
    "an eviction": ("POST", f"{CORE}/pods/nobody/eviction"),
    "a binding": ("POST", f"{CORE}/pods/nobody/binding"),
    "a scale": ("PUT", f"{APPS}/statefulsets/nobody/scale"),
}
"""What has a handful of fields, and is answered with a refusal of the field `kind` once it has been read."""


@pytest.mark.parametrize("what", SMALL)
def test_others_are_answered_while_a_body_of_yaml_is_read(server: CoreServer, what: str) -> None:
    method, path = SMALL[what]
    body = b"kind: Nothing\nlist: [" + b"1," * 60_000 + b"1]\n"
    refused, answered = server.beside(method, path, body, type=YAML, read=f"{CORE}/configmaps/small")
    assert 400 <= refused.status < 500
    assert answered >= LEAST


INVALID = {
    "empty tolerations": (f"{CORE}/pods", {"spec": {**pod_spec(), "tolerations": [{}] * 150_000}}),
    "empty variables": (f"{CORE}/pods", {"spec": pod_spec(env=[{}] * 150_000)}),
    "empty ports": (f"{CORE}/services", {"spec": {"ports": [{}] * 150_000}}),
    "bad labels": (
        f"{CORE}/configmaps",
        {"metadata": {"name": "bad", "labels": {f"-{number}": "-" for number in range(50_000)}}},
    ),
    "finalizers again and again": (
        f"{CORE}/configmaps",
        {"metadata": {"name": "bad", "finalizers": ["a"] * 150_000}},
    ),
    "numbers for tolerations": (f"{CORE}/pods", {"spec": {**pod_spec(), "tolerations": [1] * 150_000}}),
}


@pytest.mark.parametrize("what", INVALID)
def test_what_is_wrong_with_very_many_fields_is_told_of_some(server: CoreServer, what: str) -> None:
    collection, fields = INVALID[what]
    body = json.dumps({**named("bad"), **fields}).encode()
    refused, answered = server.beside("POST", collection, body, type=JSON, read=f"{CORE}/configmaps/small")
    assert refused.status in (400, 422)
    assert len(refused.body) < LARGEST_REFUSAL
    assert answered >= LEAST


def test_a_wrong_type_behind_very_many_other_problems_is_refused(server: CoreServer) -> None:
    owners = [*[{}] * 5_000, {"apiVersion": 7, "kind": [], "name": {}, "uid": 1}]
    body = {"metadata": {"name": "bad", "ownerReferences": owners}}
    assert server.send("POST", f"{CORE}/configmaps", body).status == 422


def test_a_body_of_more_values_than_any_object_has_is_refused(server: CoreServer) -> None:
    body = {**named("bad"), "data": {}, "binaryData": {}, "x": [0] * 200_001}
    refused = server.send("POST", f"{CORE}/configmaps", body)
    assert refused.status == 400
    assert "the body holds more than 200000 values" in refused.message
    # Commas in a text are no values.
    kept = server.send("POST", f"{CORE}/configmaps", named("commas", data={"k": "," * 300_000}))
    assert kept.status == 201


def test_rules_that_multiply_are_not_taken_apart(server: CoreServer) -> None:
    """As many permissions as there are products of its lists: a namespace's admin could keep the server at it for years."""
    admin = User("admin-of-one", groups=("system:authenticated",))
    binding = named(
        "admin-of-one",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": admin.name}],
    )
    server.send("POST", f"{RBAC}/rolebindings", binding).expect(201)
    words = [f"w{number}" for number in range(1_000)]
    rule = {"apiGroups": words, "resources": words, "verbs": words, "resourceNames": words}
    refused = server.send("POST", f"{RBAC}/roles", named("many", rules=[rule]), user=admin)
    assert refused.status == 422
    assert "amounts to 1000000000000 permissions" in refused.message
    modest = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": words}
    server.send("POST", f"{RBAC}/roles", named("modest", rules=[modest]), user=admin).expect(201)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("spec.tolerations", {"tolerations": [{"operator": "Exists"}] * 101}),
        (
            "spec.topologySpreadConstraints",
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": f"k{number}", "whenUnsatisfiable": "DoNotSchedule"}
                    for number in range(101)
                ]
            },
        ),
        (
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}] * 101
                    }
                }
            },
        ),
        (
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]
                            * 101
                        }
                    }
                }
            },
        ),
    ],
)
def test_what_the_scheduler_weighs_is_limited(server: CoreServer, field: str, fields: dict[str, Any]) -> None:
    refused = server.send("POST", f"{CORE}/pods", named("crowded", spec={**pod_spec(), **fields}))
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == [field]
    assert "must have at most 100 items" in refused.message


def test_long_selectors_are_limited(server: CoreServer) -> None:
    values = [f"v{number}" for number in range(5_000)]
    expression = {"key": "k", "operator": "In", "values": values}
    term = {"topologyKey": "k", "labelSelector": {"matchExpressions": [expression]}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    refused = server.send("POST", f"{CORE}/pods", named("long", spec={**pod_spec(), "affinity": affinity}))
    assert refused.status == 422
    assert "spec.affinity" in refused.message


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
@pytest.mark.parametrize("kind", ["ElasticsearchCluster", "CassandraCluster"])
def test_a_pool_has_at_most_a_thousand_nodes(server: CoreServer, version: str, kind: str) -> None:
    pool = {"name": "p", "replicas": 2**31 - 1, "roles": ["master", "data"]}
    if kind == "CassandraCluster":
        del pool["roles"]
    body = {
        "apiVersion": f"navigator.jetstack.io/{version}",
        "kind": kind,
        **named("huge", spec={"version": "8.17.0", "nodePools": [pool]}),
    }
    refused = server.send(
        "POST", f"/apis/navigator.jetstack.io/{version}/namespaces/default/{kind.lower()}s", body
    )
    assert refused.status == 422
    assert "spec.nodePools[0].replicas in body should be less than or equal to 1000" in refused.message


def test_a_definition_has_a_limited_number_of_schemas(server: CoreServer) -> None:
    parts = {f"p{number}": {"type": "string", "allOf": [{"maxLength": 5}]} for number in range(25_001)}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": parts}},
    }
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [version],
    }
    body = json.dumps(named("widgets.example.com", spec=spec)).encode()
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    refused, answered = server.beside("POST", definitions, body, type=JSON, read=f"{CORE}/configmaps/small")
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["spec.versions"]
    assert "a definition may have 50000" in refused.message
    assert answered >= LEAST
