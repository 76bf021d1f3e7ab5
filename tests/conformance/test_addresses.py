"""What an address and a method mean together, beyond the numbered cases."""

from __future__ import annotations

import pytest
from tests.kit import kube
from tests.kit.databases import GROUP, Databases, database
from tests.kit.http import Http

pytestmark = pytest.mark.conformance

PLAIN = "text/plain; charset=utf-8"


async def test_an_address_that_means_nothing_is_a_plain_404(dbs: Databases, http: Http) -> None:
    nowhere = [
        f"/apis/{GROUP}/v1/databases/a",  # a namespaced object without its namespace
        f"/apis/{GROUP}/v1/namespaces/{dbs.namespace}/regions",  # a cluster's kind inside a namespace
        f"/apis/{GROUP}/v7/namespaces/{dbs.namespace}/databases",
        "/apis/no.such.group/v1/widgets",
    ]

    answers = [await http.get(path) for path in nowhere]

    assert [(answer.status, answer.type) for answer in answers] == [(404, PLAIN)] * len(nowhere)
    assert {answer.text for answer in answers} == {"404 page not found\n"}


async def test_a_method_that_a_subresource_lacks_is_405(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    answer = await http.delete(dbs.at("a", "status"))

    assert (answer.status, answer.reason) == (405, "MethodNotAllowed")
    assert answer.message == f'delete is not supported on resources of kind "databases.{GROUP}"'
    assert (await http.send("OPTIONS", dbs.at("a"))).status == 405


async def test_a_collection_can_not_be_replaced(dbs: Databases, http: Http) -> None:
    for answer in (await http.put(dbs.path(), database("a")), await http.patch(dbs.path(), {})):
        assert (answer.status, answer.message) == (400, "name must be provided")


async def test_a_post_to_an_object_is_a_creation(dbs: Databases, http: Http) -> None:
    assert (await http.post(dbs.at("a"), database("a"))).status == 201
    assert (await http.post(dbs.at("a"), database("a"))).status == 409


async def test_a_head_is_a_get_without_body(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    answer = await http.send("HEAD", dbs.at("a"))

    assert (answer.status, answer.type, answer.body) == (200, "application/json", b"")


async def test_a_watch_of_a_named_object_is_a_get(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    assert (await http.get(dbs.at("a"), watch="1")).expect(200)["metadata"]["name"] == "a"


async def test_the_old_prefix_watches(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    async with http.watch(f"/apis/{GROUP}/v1/watch/namespaces/{dbs.namespace}/databases") as watch:
        event = await watch.next()

    assert (event.type, event.name) == ("ADDED", "a")


async def test_a_bad_duration_is_refused(dbs: Databases, http: Http) -> None:
    answer = await http.get(dbs.path(), timeout="zork")

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "timeout" in answer.message


async def test_every_answer_has_an_audit_identity_and_is_not_cached(dbs: Databases, http: Http) -> None:
    minted = await http.get(dbs.path())
    echoed = await http.get(dbs.path(), headers={"Audit-ID": "mine"})

    assert minted.headers["Audit-Id"]
    assert minted.headers["Cache-Control"] == "no-cache, private"
    assert echoed.headers["Audit-Id"] == "mine"


async def test_health_is_plain_text_with_named_checks(http: Http) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await http.get(path)
        assert (answer.status, answer.text) == (200, "ok")
        verbose = await http.get(path, verbose="true")
        assert "[+]ping ok" in verbose.text
    assert (await http.get("/livez/ping")).text == "ok"


async def test_what_pods_lack_here_is_not_taken_for_a_missing_pod(http: Http, ns: str) -> None:
    if http.target.name == kube.NAME:
        pytest.skip(
            "a real Kubernetes has these subresources; that we say which we lack is what is tried here"
        )
    pods = f"/api/v1/namespaces/{ns}/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    (await http.post(pods, {"metadata": {"name": "p"}, "spec": spec})).expect(201)

    answers = [await http.get(f"{pods}/p/portforward"), await http.post(f"{pods}/p/resize", {})]

    for answer in answers:
        assert (answer.status, answer.reason) == (404, "NotFound")
        assert answer.message == "the server could not find the requested resource"
        assert answer.json["details"] == {"kind": "pods"}
