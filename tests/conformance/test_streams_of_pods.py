"""What is refused before any node is asked: logs of, and programs in, pods that have no node."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.http import Http

pytestmark = pytest.mark.conformance

STREAMS = {"stdout": "true", "command": "true"}


@pytest.fixture
async def pods(http: Http, ns: str) -> str:
    """Two pods that nobody runs: one with one container, one with two."""
    path = f"/api/v1/namespaces/{ns}/pods"
    account = f"/api/v1/namespaces/{ns}/serviceaccounts"
    await http.post(account, {"metadata": {"name": "default"}})
    for name, containers in (("one", ["a"]), ("two", ["a", "b"])):
        spec = {
            "automountServiceAccountToken": False,
            "containers": [{"name": each, "image": "i"} for each in containers],
        }
        (await http.post(path, {"metadata": {"name": name}, "spec": spec})).expect(201)
    return path


async def test_a_pod_without_a_node_has_an_empty_log(http: Http, pods: str) -> None:
    answer = await http.get(f"{pods}/one/log")
    assert (answer.status, answer.body) == (204, b"")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"tailLines": "-1"}, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, "sinceSeconds: Invalid value: 0: must be greater than 0"),
    ],
)
async def test_a_part_that_can_not_be(http: Http, pods: str, query: dict[str, Any], message: str) -> None:
    answer = await http.get(f"{pods}/one/log", **query)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert message in answer.message


@pytest.mark.parametrize("query", [{"tailLines": "x"}, {"sinceTime": "yesterday"}])
async def test_what_is_no_number_and_no_time(http: Http, pods: str, query: dict[str, Any]) -> None:
    assert (await http.get(f"{pods}/one/log", **query)).status == 400


async def test_which_container_has_to_be_said(http: Http, pods: str) -> None:
    answer = await http.get(f"{pods}/two/log")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == "a container name must be specified for pod two, choose one of: [a b]"
    answer = await http.get(f"{pods}/two/log", container="c")
    assert (answer.status, answer.message) == (400, "container c is not valid for pod two")
    assert (await http.get(f"{pods}/two/log", container="b")).status == 204


@pytest.mark.parametrize("subresource", ["exec", "attach"])
async def test_nothing_runs_without_a_node(http: Http, pods: str, subresource: str) -> None:
    answer = await http.post(f"{pods}/one/{subresource}", None, **STREAMS)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == "pod one does not have a host assigned"


async def test_nothing_runs_in_a_container_that_is_not_there(http: Http, pods: str) -> None:
    answer = await http.post(f"{pods}/one/exec", None, container="c", **STREAMS)
    assert (answer.status, answer.message) == (400, "container c is not valid for pod one")


@pytest.mark.parametrize("subresource", ["log", "exec", "attach"])
async def test_a_pod_that_is_not_there(http: Http, pods: str, subresource: str) -> None:
    path = f"{pods}/none/{subresource}"
    answer = await (http.get(path) if subresource == "log" else http.post(path, None, **STREAMS))
    assert (answer.status, answer.message) == (404, 'pods "none" not found')


async def test_verbs_that_make_no_sense(http: Http, pods: str) -> None:
    assert (await http.post(f"{pods}/one/log", {})).status == 405
    assert (await http.delete(f"{pods}/one/exec")).status == 405


async def test_discovery_tells_of_them(http: Http) -> None:
    found = {each["name"]: each for each in (await http.get("/api/v1")).expect(200)["resources"]}
    assert (found["pods/log"]["kind"], found["pods/log"]["verbs"]) == ("Pod", ["get"])
    assert (found["pods/exec"]["kind"], found["pods/exec"]["verbs"]) == ("PodExecOptions", ["create", "get"])
    assert (found["pods/attach"]["kind"], found["pods/attach"]["verbs"]) == (
        "PodAttachOptions",
        ["create", "get"],
    )
