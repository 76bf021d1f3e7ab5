"""Cases 32–34: the kinds of patch."""

from __future__ import annotations

import pytest
from tests.kit.databases import Databases
from tests.kit.http import JSON_PATCH, STRATEGIC, Http
from tests.kit.kubectl import Kubectl

pytestmark = pytest.mark.conformance


async def test_case_32_a_custom_kind_has_no_strategic_merge_patch(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    answer = await http.patch(dbs.at("a"), {"spec": {"replicas": 2}}, type=STRATEGIC)

    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


@pytest.mark.kubectl
async def test_case_32_kubectl_says_which_patch_is_not_supported(dbs: Databases, kubectl: Kubectl) -> None:
    await dbs.create("a")

    shown = await kubectl("patch", "db", "a", "-n", dbs.namespace, "-p", '{"spec":{"replicas":2}}')

    assert shown.code == 1
    assert shown.err.startswith(
        "error: application/strategic-merge-patch+json is not supported by nav.example.io/v1, Kind=Database: "
        "the body of the request was in an unknown format - accepted media types include: "
    )


async def test_case_33_a_json_patch_tests_and_replaces(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    test = {"op": "test", "path": "/spec/engine", "value": "pg"}
    replace = {"op": "replace", "path": "/spec/replicas", "value": 3}

    patched = (await http.patch(dbs.at("a"), [test, replace], type=JSON_PATCH)).expect(200)
    assert patched["spec"]["replicas"] == 3

    failing = [{**test, "value": "mysql"}, replace]
    assert (await http.patch(dbs.at("a"), failing, type=JSON_PATCH)).status == 422
    missing = [{"op": "remove", "path": "/spec/nothing"}]
    assert (await http.patch(dbs.at("a"), missing, type=JSON_PATCH)).status == 422
    assert (await http.patch(dbs.at("a"), replace, type=JSON_PATCH)).status == 400
    assert (await dbs.read("a"))["spec"]["replicas"] == 3


async def test_case_33_an_absent_member_is_null(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    absent = {"op": "test", "path": "/metadata/finalizers", "value": None}
    finalize = {"op": "replace", "path": "/metadata/finalizers", "value": ["nav.example.io/hold"]}

    patched = (await http.patch(dbs.at("a"), [absent, finalize], type=JSON_PATCH)).expect(200)
    assert patched["metadata"]["finalizers"] == ["nav.example.io/hold"]
    again = await http.patch(dbs.at("a"), [absent, finalize], type=JSON_PATCH)
    assert (again.status, again.reason) == (422, "Invalid")

    copied = [{"op": "copy", "from": "/spec/owner", "path": "/spec/note"}]
    assert "owner" not in (await http.patch(dbs.at("a"), copied, type=JSON_PATCH)).expect(200)["spec"]
    moved = [{"op": "move", "from": "/spec/owner", "path": "/spec/note"}]
    assert (await http.patch(dbs.at("a"), moved, type=JSON_PATCH)).status == 422
    for operation in ("test", "replace", "add"):
        nowhere = [{"op": operation, "path": "/nothing/deeper", "value": None}]
        assert (await http.patch(dbs.at("a"), nowhere, type=JSON_PATCH)).status == 422


async def test_case_33_a_negative_index_counts_from_the_end(dbs: Databases, http: Http) -> None:
    await dbs.create("a", tags=["x", "y", "z"])
    patch = [
        {"op": "test", "path": "/spec/tags/-1", "value": "z"},
        {"op": "remove", "path": "/spec/tags/-1"},
        {"op": "replace", "path": "/spec/tags/-2", "value": "w"},
        {"op": "add", "path": "/spec/tags/-1", "value": "v"},
    ]

    patched = (await http.patch(dbs.at("a"), patch, type=JSON_PATCH)).expect(200)

    assert patched["spec"]["tags"] == ["w", "y", "v"]
    for operation in ("test", "remove", "replace"):
        outside = [{"op": operation, "path": "/spec/tags/-4", "value": "x"}]
        assert (await http.patch(dbs.at("a"), outside, type=JSON_PATCH)).status == 422


async def test_case_33_a_test_tells_numbers_from_booleans(dbs: Databases, http: Http) -> None:
    await dbs.create("a", replicas=1)
    for other in (True, "1", None):
        test = [{"op": "test", "path": "/spec/replicas", "value": other}]
        assert (await http.patch(dbs.at("a"), test, type=JSON_PATCH)).status == 422


async def test_case_33_a_json_patch_may_pin_the_version(dbs: Databases, http: Http) -> None:
    created = await dbs.create("a")
    pin = {"op": "test", "path": "/metadata/resourceVersion", "value": created["metadata"]["resourceVersion"]}
    finalize = {"op": "add", "path": "/metadata/finalizers", "value": ["nav.example.io/hold"]}

    patched = (await http.patch(dbs.at("a"), [pin, finalize], type=JSON_PATCH)).expect(200)
    assert patched["metadata"]["finalizers"] == ["nav.example.io/hold"]
    assert (await http.patch(dbs.at("a"), [pin, finalize], type=JSON_PATCH)).status == 422


async def test_case_34_a_merge_patch_removes_by_null(dbs: Databases, http: Http) -> None:
    created = await dbs.create("a", metadata={"labels": {"k": "v"}})

    patched = (await http.patch(dbs.at("a"), {"metadata": {"labels": None}})).expect(200)
    assert "labels" not in patched["metadata"]

    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "spec": {"replicas": 2}}
    conflict = await http.patch(dbs.at("a"), stale)
    assert (conflict.status, conflict.reason) == (409, "Conflict")
    assert (await http.patch(dbs.at("a"), [])).status == 400
    forced = await http.patch(dbs.at("a"), {"spec": {"replicas": 2}}, force="true")
    assert forced.status == 422
    assert "may not be specified for non-apply patch" in forced.message
