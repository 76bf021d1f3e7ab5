"""Every write is judged by the latest object, however soon after another write it comes.

A server may compute on what it remembers, but before it says "nothing to change", "conflict" or "does not apply" it has
to make sure that it remembered the latest. Each test writes and then at once asks for something whose answer depends on
that write, often enough for a late cache to show.
"""

from __future__ import annotations

import pytest
from tests.kit.databases import V1, Databases
from tests.kit.http import JSON_PATCH, Http, Json

pytestmark = pytest.mark.conformance

ROUNDS = 60


async def write(dbs: Databases, replicas: int) -> Json:
    answer = await dbs.http.patch(dbs.at("a"), {"spec": {"replicas": replicas}}, fieldManager="writer")
    return answer.expect(200)


async def test_a_change_back_is_a_change(dbs: Databases) -> None:
    await dbs.create("a", replicas=1)

    versions = [
        int((await write(dbs, n % 2 + 1))["metadata"]["resourceVersion"]) for n in range(1, ROUNDS + 1)
    ]

    assert versions == sorted(set(versions))


async def test_an_apply_sees_who_wrote_just_before(dbs: Databases, http: Http) -> None:
    body = {
        "apiVersion": V1,
        "kind": "Database",
        "metadata": {"name": "a"},
        "spec": {"engine": "pg", "replicas": 1},
    }
    statuses = []
    for _ in range(ROUNDS):
        (await http.apply(dbs.at("a"), body, "applier", force="true")).expect(200, 201)
        await write(dbs, 2)
        statuses.append((await http.apply(dbs.at("a"), body, "applier")).status)

    assert set(statuses) == {409}


async def test_a_patch_tests_what_was_written_just_before(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    statuses = []
    for n in range(ROUNDS):
        await write(dbs, n % 2 + 2)
        test = [{"op": "test", "path": "/spec/replicas", "value": n % 2 + 2}]
        statuses.append((await http.patch(dbs.at("a"), test, type=JSON_PATCH)).status)

    assert set(statuses) == {200}


async def test_an_update_may_follow_at_once(dbs: Databases, http: Http) -> None:
    live = await dbs.create("a")
    statuses = []
    for n in range(ROUNDS):
        answer = await http.put(dbs.at("a"), {**live, "spec": {**live["spec"], "replicas": n % 2 + 2}})
        statuses.append(answer.status)
        live = answer.expect(200)

    assert set(statuses) == {200}


async def test_a_read_or_list_follows_at_once(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    for n in range(ROUNDS):
        written = await write(dbs, n % 2 + 2)
        listed = (await http.get(dbs.path())).expect(200)
        assert await dbs.read("a") == written
        assert listed["items"] == [written]
        assert int(listed["metadata"]["resourceVersion"]) >= int(written["metadata"]["resourceVersion"])


async def test_a_deletion_may_follow_at_once(dbs: Databases, http: Http) -> None:
    for n in range(ROUNDS):
        await dbs.create("a")
        version = (await write(dbs, n % 2 + 2))["metadata"]["resourceVersion"]
        (await http.delete(dbs.at("a"), {"preconditions": {"resourceVersion": version}})).expect(200)
        assert (await http.get(dbs.at("a"))).status == 404
        assert await dbs.names() == []


async def test_a_name_is_free_at_once(dbs: Databases, http: Http) -> None:
    uids = set()
    for _ in range(ROUNDS):
        uids.add((await dbs.create("a"))["metadata"]["uid"])
        (await http.delete(dbs.at("a"))).expect(200)

    assert len(uids) == ROUNDS


async def test_a_dry_run_sees_what_was_written_just_before(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    for n in range(ROUNDS):
        written = await write(dbs, n % 2 + 2)
        dry = (await http.patch(dbs.at("a"), {"metadata": {"labels": {"k": "v"}}}, dryRun="All")).expect(200)
        assert dry["spec"] == written["spec"]
        assert dry["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
