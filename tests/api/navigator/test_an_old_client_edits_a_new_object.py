"""One object through both versions of a running server: old clients may edit it in any way and lose nothing of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.api.navigator.clusters import MASTERS, Json, elasticsearch
from tests.kit.http import Http
from tests.kit.servers import Target

from pilothouse.api.navigator.conversion import STASH

NEW_FIELDS = {"heapSize": "1Gi", "tolerations": [{"key": "dedicated", "operator": "Exists"}]}
SPEC = elasticsearch(
    plugins=[{"name": "icu", "url": "https://host/icu.zip"}],
    config={"path.repo": ["/backup"]},
    nodePools=[{**MASTERS, **NEW_FIELDS}],
    pilotImage=...,
)


def path(ns: str, version: str, name: str = "") -> str:
    return f"/apis/navigator.jetstack.io/{version}/namespaces/{ns}/elasticsearchclusters{f'/{name}' if name else ''}"


async def put(http: Http, at: str) -> Any:
    obj = (await http.get(at)).expect(200)
    obj["spec"]["nodePools"][0]["replicas"] = 5
    return await http.put(at, obj)


async def put_without_annotations(http: Http, at: str) -> Any:
    obj = (await http.get(at)).expect(200)
    obj["spec"]["nodePools"][0]["replicas"] = 5
    del obj["metadata"]["annotations"]
    return await http.put(at, obj)


async def merge(http: Http, at: str) -> Any:
    pool = {"name": "test", "replicas": 5, "roles": ["master"], "persistence": {"size": "10Gi"}}
    return await http.patch(at, {"spec": {"nodePools": [pool]}, "metadata": {"annotations": None}})


async def json_patch(http: Http, at: str) -> Any:
    change = [{"op": "replace", "path": "/spec/nodePools/0/replicas", "value": 5}]
    return await http.patch(at, change, type="application/json-patch+json")


async def apply(http: Http, at: str) -> Any:
    pool = {"name": "test", "replicas": 5, "roles": ["master"]}
    body = {
        "apiVersion": "navigator.jetstack.io/v1alpha1",
        "kind": "ElasticsearchCluster",
        "metadata": {"name": "demo"},
        "spec": {"version": "5.6.2", "nodePools": [pool]},
    }
    return await http.apply(at, body, "old-client", force="true")


@pytest.fixture(autouse=True)
def needs_our_server(target: Target) -> None:
    if target.name == "kube":
        pytest.skip("conversion between versions is our server's own")


@pytest.mark.parametrize("edit", [put, put_without_annotations, merge, json_patch, apply])
async def test_an_edit_in_v1alpha1_keeps_what_only_v1beta1_has(
    edit: Callable[[Http, str], Awaitable[Any]], http: Http, ns: str
) -> None:
    body: Json = {
        "apiVersion": "navigator.jetstack.io/v1beta1",
        "kind": "ElasticsearchCluster",
        "metadata": {"name": "demo"},
        "spec": SPEC,
    }
    (await http.post(path(ns, "v1beta1"), body)).expect(201)
    edited = (await edit(http, path(ns, "v1alpha1", "demo"))).expect(200)
    assert edited["apiVersion"] == "navigator.jetstack.io/v1alpha1"
    assert STASH in edited["metadata"]["annotations"]

    stored = (await http.get(path(ns, "v1beta1", "demo"))).expect(200)
    (pool,) = stored["spec"]["nodePools"]
    assert pool == {**MASTERS, **NEW_FIELDS, "replicas": 5}
    assert stored["spec"]["plugins"] == SPEC["plugins"]
    assert stored["spec"]["config"] == SPEC["config"]
    assert STASH not in stored["metadata"].get("annotations", {})
    assert STASH not in str(stored["metadata"]["managedFields"])
    assert stored["metadata"]["generation"] == 2


async def test_status_written_in_either_version_is_one_status(http: Http, ns: str) -> None:
    body = {
        "apiVersion": "navigator.jetstack.io/v1beta1",
        "kind": "ElasticsearchCluster",
        "metadata": {"name": "demo"},
        "spec": SPEC,
    }
    (await http.post(path(ns, "v1beta1"), body)).expect(201)
    new = {"status": {"observedGeneration": 1, "health": "Yellow", "nodePools": {"test": {"replicas": 3}}}}
    (await http.patch(f"{path(ns, 'v1beta1', 'demo')}/status", new)).expect(200)
    old = {"status": {"health": "Green", "nodePools": {"test": {"readyReplicas": 3}}}}
    (await http.patch(f"{path(ns, 'v1alpha1', 'demo')}/status", old)).expect(200)
    stored = (await http.get(path(ns, "v1beta1", "demo"))).expect(200)
    assert stored["status"] == {
        "observedGeneration": 1,
        "health": "Green",
        "nodePools": {"test": {"replicas": 3, "readyReplicas": 3}},
    }
    assert stored["spec"]["config"] == SPEC["config"]
