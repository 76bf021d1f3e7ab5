"""Cases 26–31: replacing objects, and many clients at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.databases import Databases, database, manifest
from tests.kit.http import Http, Json
from tests.kit.kubectl import Kubectl

pytestmark = pytest.mark.conformance


def with_version(body: Json, version: str) -> Json:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


async def test_case_26_an_update_must_name_the_version_it_replaces(dbs: Databases, http: Http) -> None:
    created = await dbs.create("a")

    missing = await http.put(dbs.at("a"), database("a"))
    assert (missing.status, missing.reason) == (422, "Invalid")
    (cause,) = missing.causes
    assert cause.field == "metadata.resourceVersion"
    assert "must be specified for an update" in cause.message

    stale_version = created["metadata"]["resourceVersion"]
    (await http.patch(dbs.at("a"), {"spec": {"replicas": 2}})).expect(200)
    stale = await http.put(dbs.at("a"), with_version(database("a"), stale_version))
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert "the object has been modified" in stale.message
    assert (await dbs.read("a"))["spec"]["replicas"] == 2


async def test_case_27_an_update_changes_the_spec_alone(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    live = (await http.patch(dbs.at("a", "status"), {"status": {"phase": "Running"}})).expect(200)
    body = database("a", replicas=2, metadata={"generation": 55})
    body["status"] = {"phase": "Broken"}

    updated = (await http.put(dbs.at("a"), with_version(body, live["metadata"]["resourceVersion"]))).expect(
        200
    )

    for kept in ("uid", "creationTimestamp"):
        assert updated["metadata"][kept] == live["metadata"][kept]
    assert updated["status"] == {"phase": "Running"}
    assert updated["spec"]["replicas"] == 2
    assert updated["metadata"]["generation"] == 2
    assert int(updated["metadata"]["resourceVersion"]) > int(live["metadata"]["resourceVersion"])


async def test_case_28_a_write_that_changes_nothing_is_not_a_write(dbs: Databases, http: Http) -> None:
    live = await dbs.create("a")
    version = live["metadata"]["resourceVersion"]
    async with http.watch(dbs.path(), resourceVersion=version) as watch:
        put = (await http.put(dbs.at("a"), live)).expect(200)
        patched = (await http.patch(dbs.at("a"), {"spec": {"engine": "pg"}})).expect(200)
        await dbs.create("b")
        first = await watch.next()

    assert put["metadata"]["resourceVersion"] == version
    assert patched["metadata"]["resourceVersion"] == version
    assert (first.type, first.name) == ("ADDED", "b")


@pytest.mark.kubectl
async def test_case_28_kubectl_sees_that_nothing_changed(dbs: Databases, kubectl: Kubectl) -> None:
    await dbs.create("a")

    arguments = ("patch", "db", "a", "-n", dbs.namespace, "--type=merge", "-p", '{"spec":{"engine":"pg"}}')

    assert (await kubectl(*arguments)).ok() == "database.nav.example.io/a patched (no change)\n"


async def test_case_29_concurrent_patches_of_different_labels_are_all_kept(
    dbs: Databases, http: Http
) -> None:
    clients, rounds = 20, 50
    await dbs.create("a")

    async def label(client: int) -> list[int]:
        patches = [{"metadata": {"labels": {f"c{client}": str(n)}}} for n in range(rounds)]
        return [(await http.patch(dbs.at("a"), patch)).status for patch in patches]

    statuses = await asyncio.gather(*(label(client) for client in range(clients)))

    assert {status for client in statuses for status in client} == {200}
    live = await dbs.read("a")
    assert live["metadata"]["labels"] == {f"c{client}": str(rounds - 1) for client in range(clients)}
    assert live["metadata"]["generation"] == 1


async def test_case_29_concurrent_increments_count_exactly_the_successes(dbs: Databases, http: Http) -> None:
    await dbs.create("a", metadata={"annotations": {"n": "0"}})

    async def increment(rounds: int) -> list[int]:
        statuses = []
        for _ in range(rounds):
            live = await dbs.read("a")
            live["metadata"]["annotations"]["n"] = str(int(live["metadata"]["annotations"]["n"]) + 1)
            statuses.append((await http.put(dbs.at("a"), live)).status)
        return statuses

    statuses = [s for client in await asyncio.gather(*(increment(15) for _ in range(10))) for s in client]

    assert set(statuses) <= {200, 409}
    assert int((await dbs.read("a"))["metadata"]["annotations"]["n"]) == statuses.count(200)


async def test_case_30_an_update_needs_the_right_object(dbs: Databases, http: Http) -> None:
    missing = await http.put(dbs.at("a"), with_version(database("a"), "5"))
    assert (missing.status, missing.reason) == (404, "NotFound")

    live = await dbs.create("a")
    stranger = {**live, "metadata": {**live["metadata"], "uid": "00000000-0000-0000-0000-000000000001"}}
    assert (await http.put(dbs.at("a"), stranger)).status == 409

    renamed = {**live, "metadata": {**live["metadata"], "name": "b"}}
    answer = await http.put(dbs.at("a"), renamed)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "does not match" in answer.message


async def test_case_31_generation_counts_changes_of_the_spec(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    async def generation(path: str, patch: Json) -> int:
        patched = (await http.patch(path, patch)).expect(200)
        return int(patched["metadata"]["generation"])

    assert await generation(dbs.at("a"), {"metadata": {"labels": {"k": "v"}}}) == 1
    assert await generation(dbs.at("a"), {"spec": {"replicas": 2}}) == 2
    assert await generation(dbs.at("a", "status"), {"status": {"phase": "Running"}}) == 2


@pytest.mark.kubectl
async def test_case_27_kubectl_replace_keeps_what_it_does_not_send(dbs: Databases, kubectl: Kubectl) -> None:
    created = await dbs.create("a")

    shown = await kubectl(
        "replace", "-n", dbs.namespace, "-f", "-", stdin=manifest(database("a", replicas=3))
    )

    assert shown.ok() == "database.nav.example.io/a replaced\n"
    live = await dbs.read("a")
    assert live["metadata"]["uid"] == created["metadata"]["uid"]
    assert live["spec"]["replicas"] == 3
