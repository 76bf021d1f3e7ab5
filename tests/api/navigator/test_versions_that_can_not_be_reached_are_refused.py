"""The version of a cluster of Elasticsearch: what the API server can know to be impossible is refused at once, in either version of the API."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.navigator.clusters import elasticsearch
from tests.kit.http import Http
from tests.kit.servers import Target

VERSIONS = ("v1alpha1", "v1beta1")


@pytest.fixture(autouse=True)
def needs_our_server(target: Target) -> None:
    if target.name == "kube":
        pytest.skip("the rules of our own kinds are our server's")


def path(ns: str, version: str, name: str = "") -> str:
    return f"/apis/navigator.jetstack.io/{version}/namespaces/{ns}/elasticsearchclusters{f'/{name}' if name else ''}"


def manifest(api: str, version: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"navigator.jetstack.io/{api}",
        "kind": "ElasticsearchCluster",
        "metadata": {"name": "demo"},
        "spec": elasticsearch(version=version),
    }


async def running(http: Http, ns: str, *, asked: str, lowest: str) -> None:
    """A cluster that asks for one version, and whose nodes report another or a later one."""
    (await http.post(path(ns, "v1beta1"), manifest("v1beta1", asked))).expect(201)
    status = {"status": {"version": lowest, "health": "Green"}}
    (await http.patch(f"{path(ns, 'v1beta1', 'demo')}/status", status)).expect(200)


def refused(answer: Any) -> str:
    """The message of a 422 that names the version."""
    status = answer.expect(422)
    assert status["reason"] == "Invalid"
    assert [each["field"] for each in status["details"]["causes"]] == ["spec.version"]
    return str(status["message"])


@pytest.mark.parametrize("api", VERSIONS)
@pytest.mark.parametrize(
    "version", ["latest", "8", "8.17", "v8.17.0", "8.17.0.1", "8.x.0", "9.0.0", "99.1.0"]
)
async def test_a_new_cluster_needs_a_version_that_there_is(
    http: Http, ns: str, api: str, version: str
) -> None:
    refused(await http.post(path(ns, api), manifest(api, version)))


@pytest.mark.parametrize("api", VERSIONS)
@pytest.mark.parametrize(
    ("lowest", "wanted", "says"),
    [
        ("8.17.0", "7.17.29", "can't go back from 8.17.0"),
        ("8.17.1", "8.17.0", "can't go back from 8.17.1"),
        ("7.10.2", "8.17.0", "go to 7.17 or later first"),
        ("6.8.23", "8.17.0", "go to the last 7.x in between"),
        ("8.18.0", "9.0.0", "set spec.version to a 6.8, 7 or 8 release"),
        ("8.17.0", "99.0.0", "set spec.version to a 6.8, 7 or 8 release"),
        ("8.17.0", "newest", "expected numbers"),
    ],
)
async def test_a_version_that_what_runs_can_not_reach_is_refused(
    http: Http, ns: str, api: str, lowest: str, wanted: str, says: str
) -> None:
    await running(http, ns, asked=lowest, lowest=lowest)
    at = path(ns, api, "demo")
    assert says in refused(await http.patch(at, {"spec": {"version": wanted}}))
    assert (await http.get(at)).expect(200)["spec"]["version"] == lowest


@pytest.mark.parametrize("api", VERSIONS)
@pytest.mark.parametrize(
    ("asked", "lowest", "wanted"),
    [
        ("7.17.9", "7.17.9", "7.17.29"),
        ("7.17.29", "7.17.29", "8.17.0"),
        ("6.8.23", "6.8.23", "7.17.9"),
        # What no node runs yet can be taken back, and a roll can be stopped half-way.
        ("8.99.0", "8.17.0", "8.17.0"),
        ("8.17.0", "7.17.29", "7.17.29"),
    ],
)
async def test_a_version_that_can_be_reached_is_accepted(
    http: Http, ns: str, api: str, asked: str, lowest: str, wanted: str
) -> None:
    await running(http, ns, asked=asked, lowest=lowest)
    (await http.patch(path(ns, api, "demo"), {"spec": {"version": wanted}})).expect(200)


async def test_a_version_that_was_accepted_before_does_not_keep_the_rest_from_being_edited(
    http: Http, ns: str
) -> None:
    await running(http, ns, asked="7.17.9", lowest="8.17.0")
    (await http.patch(path(ns, "v1beta1", "demo"), {"spec": {"paused": True}})).expect(200)
