"""Cases 1–6 and 10: how clients learn what is served."""

from __future__ import annotations

import pytest
from tests.kit.databases import GROUP, Databases
from tests.kit.http import JSON, Http
from tests.kit.kubectl import Kubectl

pytestmark = pytest.mark.conformance

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
AGGREGATED = (
    f"{V2},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


async def test_case_01_aggregated_discovery_lists_versions_in_order_with_subresources(http: Http) -> None:
    answer = await http.get("/apis", accept=AGGREGATED)

    assert answer.status == 200
    assert answer.type == V2
    assert answer.headers["ETag"]
    group = next(item for item in answer.json["items"] if item["metadata"]["name"] == GROUP)
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]
    assert {version["freshness"] for version in group["versions"]} == {"Current"}
    databases = next(r for r in group["versions"][0]["resources"] if r["resource"] == "databases")
    assert databases["scope"] == "Namespaced"
    assert databases["singularResource"] == "database"
    assert databases["shortNames"] == ["db"]
    assert databases["categories"] == ["all"]
    verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert set(databases["verbs"]) == verbs
    kinds = {sub["subresource"]: sub["responseKind"] for sub in databases["subresources"]}
    assert kinds == {
        "status": {"group": GROUP, "version": "v1", "kind": "Database"},
        "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    }
    core = await http.get("/api", accept=AGGREGATED)
    assert core.type == V2
    assert "name" not in core.json["items"][0]["metadata"]


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_case_02_a_known_etag_answers_304_without_body(http: Http, path: str) -> None:
    first = await http.get(path, accept=AGGREGATED)
    again = await http.get(path, accept=AGGREGATED, headers={"If-None-Match": first.headers["ETag"]})

    assert again.status == 304
    assert again.body == b""


async def test_case_03_legacy_discovery_names_the_preferred_version(http: Http) -> None:
    groups = (await http.get("/apis", accept=JSON)).expect(200)

    assert groups["kind"] == "APIGroupList"
    group = next(item for item in groups["groups"] if item["name"] == GROUP)
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]
    assert (await http.get(f"/apis/{GROUP}", accept=JSON)).expect(200)["kind"] == "APIGroup"
    assert (await http.get("/api", accept=JSON)).expect(200)["versions"] == ["v1"]


@pytest.mark.parametrize("path", ["/apis/", "/api/", "/version/"])
async def test_case_03_a_trailing_slash_is_fine(http: Http, path: str) -> None:
    assert (await http.get(path)).status == 200


async def test_case_04_the_resource_list_has_subresources_as_entries(http: Http) -> None:
    listed = (await http.get(f"/apis/{GROUP}/v1", accept=JSON)).expect(200)

    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", f"{GROUP}/v1")
    resources = {resource["name"]: resource for resource in listed["resources"]}
    assert set(resources) == {"databases", "databases/status", "databases/scale", "regions"}
    assert resources["databases"]["namespaced"] is True
    assert resources["databases"]["singularName"] == "database"
    assert resources["databases/status"]["kind"] == "Database"
    scale = resources["databases/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert set(scale["verbs"]) == {"get", "patch", "update"}
    assert resources["regions"]["namespaced"] is False


@pytest.mark.kubectl
async def test_case_05_kubectl_api_resources_shows_both_kinds(kubectl: Kubectl, http: Http) -> None:
    shown = await kubectl("api-resources", f"--api-group={GROUP}", "--no-headers")

    assert sorted(line.split() for line in shown.ok().splitlines()) == [
        ["databases", "db", f"{GROUP}/v1", "true", "Database"],
        ["regions", "rg", f"{GROUP}/v1", "false", "Region"],
    ]


async def test_case_06_an_unknown_resource_is_404(dbs: Databases, http: Http) -> None:
    assert (await http.get(f"/apis/{GROUP}/v1/namespaces/{dbs.namespace}/widgets")).status == 404
    assert (await http.get("/apis/no.such.group/v1/widgets")).status == 404


@pytest.mark.kubectl
async def test_case_06_kubectl_says_that_it_does_not_know_the_type(kubectl: Kubectl, http: Http) -> None:
    shown = await kubectl("get", "nosuch")

    assert shown.code == 1
    assert shown.err.strip() == 'error: the server doesn\'t have a resource type "nosuch"'


@pytest.mark.kubectl
async def test_case_10_kubectl_explains_fields_from_the_published_schema(
    kubectl: Kubectl, http: Http
) -> None:
    users = (await kubectl("explain", "db.spec.users")).ok()

    assert "GROUP:      nav.example.io" in users
    assert "Who may log in." in users
    assert [line.split() for line in users.splitlines() if "<string>" in line] == [
        ["name", "<string>", "-required-"],
        ["role", "<string>"],
    ]
    wrong = await kubectl("explain", "db.spec.zip")
    assert wrong.code == 1
    assert 'field "zip" does not exist' in wrong.err
