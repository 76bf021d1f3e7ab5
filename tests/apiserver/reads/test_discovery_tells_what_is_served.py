from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from tests.apiserver.reads.world import CONFIG_MAPS, DATABASES, REGIONS

from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.discovery.documents import DiscoveryDocuments
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.meta.errors import StatusError

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
KUBECTL = f"{V2},{V2BETA1},application/json"


@pytest.fixture
def catalog() -> KindCatalog:
    return KindCatalog([DATABASES, REGIONS, CONFIG_MAPS])


@pytest.fixture
def discovery(catalog: KindCatalog) -> DiscoveryDocuments:
    return DiscoveryDocuments(catalog)


def ask(discovery: DiscoveryDocuments, path: str, **headers: str) -> Response:
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    response = discovery.answer(Request("GET", path, headers=named))
    assert response is not None
    return response


def body(discovery: DiscoveryDocuments, path: str, **headers: str) -> Any:
    return json.loads(bytes(ask(discovery, path, **headers).body))


def header(response: Response, name: str) -> str:
    return dict(response.headers)[name]


def test_case_01_everything_at_once_with_the_best_version_first(discovery: DiscoveryDocuments) -> None:
    response = ask(discovery, "/apis", accept=KUBECTL)
    assert response.content_type == V2
    listed = json.loads(bytes(response.body))
    assert listed["kind"] == "APIGroupDiscoveryList"
    assert listed["apiVersion"] == "apidiscovery.k8s.io/v2"
    (group,) = listed["items"]
    assert group["metadata"] == {"name": "nav.example.io"}
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]
    databases, regions = group["versions"][0]["resources"]
    assert databases["shortNames"] == ["db"]
    assert databases["categories"] == ["all"]
    assert databases["scope"] == "Namespaced"
    subs = {sub["subresource"]: sub["responseKind"] for sub in databases["subresources"]}
    assert subs["status"] == {"group": "nav.example.io", "version": "v1", "kind": "Database"}
    assert subs["scale"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert regions["scope"] == "Cluster"
    assert "subresources" not in regions
    assert header(response, "Vary") == "Accept"
    assert header(response, "ETag").startswith('"')


def test_case_02_a_client_that_has_it_gets_304(discovery: DiscoveryDocuments) -> None:
    tag = header(ask(discovery, "/apis", accept=KUBECTL), "ETag")
    again = ask(discovery, "/apis", accept=KUBECTL, if_none_match=tag)
    assert (again.status, again.body) == (304, b"")


def test_the_tag_moves_with_the_catalogue(discovery: DiscoveryDocuments, catalog: KindCatalog) -> None:
    tag = header(ask(discovery, "/apis", accept=KUBECTL), "ETag")
    catalog.remove("nav.example.io", "regions")
    assert ask(discovery, "/apis", accept=KUBECTL, if_none_match=tag).status == 200


def test_the_core_group_has_no_name(discovery: DiscoveryDocuments) -> None:
    (core,) = body(discovery, "/api", accept=KUBECTL)["items"]
    assert core["metadata"] == {}
    assert [each["resource"] for each in core["versions"][0]["resources"]] == ["configmaps"]


def test_an_older_client_gets_the_older_aggregated_form(discovery: DiscoveryDocuments) -> None:
    response = ask(discovery, "/apis", accept=f"{V2BETA1},application/json")
    assert response.content_type == V2BETA1
    assert json.loads(bytes(response.body))["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


@pytest.mark.parametrize("accept", ["application/json", "*/*", ""])
def test_case_03_groups_one_by_one(discovery: DiscoveryDocuments, accept: str) -> None:
    listed = body(discovery, "/apis/", accept=accept)
    assert listed["kind"] == "APIGroupList"
    assert listed["groups"][0]["preferredVersion"] == {"groupVersion": "nav.example.io/v1", "version": "v1"}
    assert body(discovery, "/api/", accept=accept)["versions"] == ["v1"]
    assert body(discovery, "/apis/nav.example.io", accept=accept)["kind"] == "APIGroup"


def test_case_04_resources_of_a_version_with_their_subresources(discovery: DiscoveryDocuments) -> None:
    listed = body(discovery, "/apis/nav.example.io/v1")
    assert listed["groupVersion"] == "nav.example.io/v1"
    by_name = {each["name"]: each for each in listed["resources"]}
    assert set(by_name) == {"databases", "databases/scale", "databases/status", "regions"}
    scale = by_name["databases/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert by_name["databases"]["singularName"] == "database"
    assert "watch" in by_name["databases"]["verbs"]
    assert body(discovery, "/api/v1")["groupVersion"] == "v1"


@pytest.mark.parametrize(
    "path", ["/apis/nope", "/apis/nope/v1", "/apis/nav.example.io/v9", "/api/v2", "/healthz", "/"]
)
def test_what_is_not_there_is_someone_elses_to_answer(discovery: DiscoveryDocuments, path: str) -> None:
    assert discovery.answer(Request("GET", path)) is None


def test_other_methods_are_refused(discovery: DiscoveryDocuments) -> None:
    with pytest.raises(StatusError) as caught:
        discovery.answer(Request("POST", "/apis"))
    assert caught.value.code == 405


def test_kubernetes_groups_come_before_ours_and_ours_before_a_users() -> None:
    def in_group(group: str) -> Any:
        kinds = tuple(dataclasses.replace(kind, group=group) for kind in REGIONS.kinds)
        return dataclasses.replace(REGIONS, kinds=kinds)

    groups = ["a.example.com", "pilothouse.io", "rbac.authorization.k8s.io", "apps"]
    listed = body(DiscoveryDocuments(KindCatalog(map(in_group, groups))), "/apis")
    assert [group["name"] for group in listed["groups"]] == list(reversed(groups))
