"""Cases 59, 60 and 62: deletion, finalizers and owners."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.databases import GROUP, V1, Databases, database
from tests.kit.http import Http, Json
from tests.kit.kubectl import Kubectl
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance

HOLD = "nav.example.io/hold"


def owner(name: str, uid: str, *, controller: bool = False) -> Json:
    reference: Json = {"apiVersion": V1, "kind": "Database", "name": name, "uid": uid}
    return {**reference, "controller": True} if controller else reference


def is_running(process: asyncio.subprocess.Process) -> bool:
    return process.returncode is None


async def test_case_59_a_deletion_answers_with_whom_it_deleted(dbs: Databases, http: Http) -> None:
    created = await dbs.create("a")

    status = (await http.delete(dbs.at("a"))).expect(200)

    assert (status["kind"], status["status"]) == ("Status", "Success")
    uid = created["metadata"]["uid"]
    assert status["details"] == {"name": "a", "group": GROUP, "kind": "databases", "uid": uid}
    assert (await http.get(dbs.at("a"))).status == 404
    assert (await http.delete(dbs.at("a"))).status == 404


@pytest.mark.parametrize(
    "precondition", [{"uid": "00000000-0000-0000-0000-000000000001"}, {"resourceVersion": "1"}]
)
async def test_case_59_a_precondition_protects(dbs: Databases, http: Http, precondition: Json) -> None:
    await dbs.create("a")

    answer = await http.delete(dbs.at("a"), {"preconditions": precondition})

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert (await http.get(dbs.at("a"))).status == 200


async def test_case_59_an_unknown_policy_is_refused(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    assert (await http.delete(dbs.at("a"), {"propagationPolicy": "Foo"})).status == 422
    assert (await http.delete(dbs.at("a"), propagationPolicy="Foo")).status == 422
    both = {"propagationPolicy": "Orphan", "orphanDependents": True}
    assert (await http.delete(dbs.at("a"), both)).status == 422
    assert (await http.get(dbs.at("a"))).status == 200


async def test_case_60_a_finalizer_holds_the_object_until_it_is_removed(dbs: Databases, http: Http) -> None:
    await dbs.create("a", metadata={"finalizers": [HOLD]})

    marked = (await http.delete(dbs.at("a"))).expect(200)
    assert marked["kind"] == "Database"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked["metadata"]["generation"] == 2

    again = (await http.delete(dbs.at("a"))).expect(200)
    assert again["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]

    taken = await http.post(dbs.path(), database("a"))
    assert (taken.status, taken.reason) == (409, "AlreadyExists")
    assert taken.message.startswith("object is being deleted: ")

    more = await http.patch(dbs.at("a"), {"metadata": {"finalizers": [HOLD, "nav.example.io/more"]}})
    assert more.status == 422
    assert more.causes[0].field == "metadata.finalizers"

    async with http.watch(dbs.path(), resourceVersion=marked["metadata"]["resourceVersion"]) as watch:
        released = (await http.patch(dbs.at("a"), {"metadata": {"finalizers": None}})).expect(200)
        event = await watch.next()
    assert released["metadata"]["name"] == "a"
    assert "finalizers" not in released["metadata"]
    assert event.type == "DELETED"
    assert event.version > int(marked["metadata"]["resourceVersion"])
    assert (await http.get(dbs.at("a"))).status == 404


@pytest.mark.kubectl
async def test_case_60_kubectl_delete_waits_for_the_finalizer(
    dbs: Databases, http: Http, kubectl: Kubectl
) -> None:
    await dbs.create("a", metadata={"finalizers": [HOLD]})

    async def is_marked() -> bool:
        return "deletionTimestamp" in (await dbs.read("a"))["metadata"]

    async with kubectl.started("delete", "db", "a", "-n", dbs.namespace) as process:
        await eventually(is_marked)
        # Still waiting: nothing but the finalizer's removal lets it go.
        assert is_running(process)
        (await http.patch(dbs.at("a"), {"metadata": {"finalizers": None}})).expect(200)
        out, err = await asyncio.wait_for(process.communicate(), 30)

    assert process.returncode == 0, err
    assert out.decode().startswith(f'database.{GROUP} "a" deleted')


async def test_case_62_one_owner_controls(dbs: Databases, http: Http) -> None:
    owners = [owner(name, f"{name}-uid", controller=True) for name in ("x", "y")]

    answer = await http.post(dbs.path(), database("a", metadata={"ownerReferences": owners}))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes[0].field == "metadata.ownerReferences"


async def test_case_62_a_duplicate_owner_is_dropped_with_a_warning(dbs: Databases, http: Http) -> None:
    parent = await dbs.create("parent")
    reference = owner("parent", parent["metadata"]["uid"])

    answer = await http.post(dbs.path(), database("a", metadata={"ownerReferences": [reference, reference]}))

    assert answer.expect(201)["metadata"]["ownerReferences"] == [reference]
    assert len(answer.warnings) == 1
    assert "ownerReferences" in answer.warnings[0]
    assert "duplicate" in answer.warnings[0]


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "uid"])
async def test_case_62_an_owner_is_named_in_full(dbs: Databases, http: Http, field: str) -> None:
    reference = {**owner("x", "x-uid"), field: ""}

    answer = await http.post(dbs.path(), database("a", metadata={"ownerReferences": [reference]}))

    assert answer.status == 422
    # A real server leaves out the index.
    assert answer.causes[0].field.replace("[0]", "") == f"metadata.ownerReferences.{field}"
