"""The kinds of databases on a live server: in namespaces that exist, under the names that people know them by."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl
from tests.kit.servers import Target

GROUP = "/apis/navigator.jetstack.io/v1beta1"
NAMESPACES = "/api/v1/namespaces"

pytestmark = pytest.mark.kubectl


@pytest.fixture(autouse=True)
def ours(target: Target) -> None:
    if target.name == "kube":
        pytest.skip("a real kube-apiserver does not have these kinds until their CRDs are applied")


def pilot(namespace: str, name: str = "richards-pilot") -> dict[str, Any]:
    """It names itself as its owner, with a uid that nothing has."""
    owner = {
        "apiVersion": "navigator.jetstack.io/v1alpha1",
        "kind": "Pilot",
        "name": name,
        "uid": "9b1a4a0e-0000-4000-8000-000000000000",
        "controller": True,
    }
    return {
        "apiVersion": "navigator.jetstack.io/v1alpha1",
        "kind": "Pilot",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "spec": {},
    }


def cluster(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "navigator.jetstack.io/v1alpha1",
        "kind": "ElasticsearchCluster",
        "metadata": {"name": "test", "namespace": namespace},
        "spec": {
            "version": "5.6.2",
            "minimumMasters": 1,
            "securityContext": {"runAsUser": 1000},
            "pilotImage": {"repository": "navigator-pilot-elasticsearch", "tag": "build"},
            "nodePools": [{"name": "mixed", "replicas": 1, "roles": ["master", "ingest", "data"]}],
        },
    }


async def ending(http: Http, namespace: str) -> None:
    """A namespace that is being deleted, and waits for somebody."""
    tree = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace, "finalizers": ["example.org/wait"]},
    }
    (await http.post(NAMESPACES, tree)).expect(201)


async def let_go(http: Http, namespace: str) -> None:
    path = f"{NAMESPACES}/{namespace}"
    body = {"metadata": {"finalizers": None}, "spec": {"finalizers": None}}
    (await http.patch(path, body)).expect(200, 404)


async def test_nav_E02_a_pilot_in_a_namespace_that_is_not_there_is_refused(kubectl: Kubectl, ns: str) -> None:
    done = await kubectl("create", "-f", "-", stdin=json.dumps(pilot(f"{ns}-none")))
    assert done.code != 0
    assert f'namespaces "{ns}-none" not found' in done.err


async def test_nav_E03_the_same_pilot_is_accepted_where_the_namespace_is_there(
    kubectl: Kubectl, ns: str
) -> None:
    (await kubectl("create", "-f", "-", stdin=json.dumps(pilot(ns)))).ok()
    assert "richards-pilot" in (await kubectl("get", "pilots", "-n", ns)).ok()


async def test_nav_E04_the_short_names_resolve(kubectl: Kubectl, ns: str) -> None:
    for name in ("esc", "elasticsearch", "cassandra"):
        assert "No resources found" in (await kubectl("get", name, "-n", ns)).err


async def test_nav_E05_a_cluster_is_listed_by_its_kind(kubectl: Kubectl, ns: str) -> None:
    (await kubectl("create", "-f", "-", stdin=json.dumps(cluster(ns)))).ok()
    assert "test" in (await kubectl("get", "ElasticsearchCluster", "-n", ns)).ok()


@pytest.mark.parametrize("kind", ["pilots", "elasticsearchclusters"])
async def test_nav_N01_nothing_is_made_where_there_is_no_namespace(http: Http, ns: str, kind: str) -> None:
    made = pilot(f"{ns}-none") if kind == "pilots" else cluster(f"{ns}-none")
    answer = await http.post(
        f"{GROUP}/namespaces/{ns}-none/{kind}", {**made, "apiVersion": "navigator.jetstack.io/v1beta1"}
    )
    assert (answer.status, answer.reason) == (404, "NotFound")


async def test_nav_N02_in_an_active_namespace_it_is(http: Http, ns: str) -> None:
    path = f"/apis/navigator.jetstack.io/v1alpha1/namespaces/{ns}/elasticsearchclusters"
    (await http.post(path, cluster(ns))).expect(201)


async def test_nav_N03_in_one_that_ends_things_are_changed_and_deleted_but_not_made(
    http: Http, ns: str
) -> None:
    namespace = f"{ns}-ending"
    await ending(http, namespace)
    try:
        path = f"{GROUP}/namespaces/{namespace}/pilots"
        made = {**pilot(namespace), "apiVersion": "navigator.jetstack.io/v1beta1"}
        (await http.post(path, made)).expect(201)
        (await http.delete(f"{NAMESPACES}/{namespace}")).expect(200)
        refused = await http.post(path, {**made, "metadata": {"name": "another", "namespace": namespace}})
        assert (refused.status, refused.reason) == (403, "Forbidden")
        assert "being terminated" in refused.json["message"]
        changed = await http.patch(f"{path}/richards-pilot", {"spec": {"decommission": True}})
        assert changed.expect(200)["spec"]["decommission"] is True
        (await http.delete(f"{path}/richards-pilot")).expect(200)
    finally:
        await let_go(http, namespace)
