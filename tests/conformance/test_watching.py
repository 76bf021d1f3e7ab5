"""Cases 52–58: watches."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from tests.kit.databases import V1ALPHA1, Databases
from tests.kit.http import TABLE, Event, Http, Json
from tests.kit.servers import Server

pytestmark = pytest.mark.conformance

REGIONS = "/apis/nav.example.io/v1/regions"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def test_case_52_every_change_comes_once_and_in_order(dbs: Databases, http: Http) -> None:
    created = await dbs.create("a")
    async with http.watch(dbs.path(), resourceVersion=created["metadata"]["resourceVersion"]) as watch:
        assert (watch.status, watch.headers["Content-Type"]) == (200, "application/json")
        last = [
            (await http.patch(dbs.at("a"), {"spec": {"replicas": n}})).expect(200)["metadata"][
                "resourceVersion"
            ]
            for n in (2, 3)
        ]
        (await http.delete(dbs.at("a"))).expect(200)
        await dbs.create("a")
        events = await watch.take(4)

    assert [event.type for event in events] == ["MODIFIED", "MODIFIED", "DELETED", "ADDED"]
    versions = [event.version for event in events]
    assert versions == sorted(set(versions))
    assert versions[:2] == [int(version) for version in last]
    assert events[2].object["spec"]["replicas"] == 3


async def test_case_52_a_watch_ends_cleanly_when_its_time_is_up(dbs: Databases, http: Http) -> None:
    begun = asyncio.get_running_loop().time()
    async with http.watch(dbs.path(), resourceVersion=await dbs.revision(), timeoutSeconds=1) as watch:
        assert await watch.rest() == []

    # Never early: a client takes a short watch for a fault of the server.
    assert asyncio.get_running_loop().time() - begun >= 0.5


async def test_case_52_a_watch_from_nowhere_begins_with_what_is_there(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    await dbs.create("b")
    async with http.watch(dbs.path()) as watch:
        first = await watch.take(2)
        (await http.delete(dbs.at("a"))).expect(200)
        third = await watch.next()

    assert {(event.type, event.name) for event in first} == {("ADDED", "a"), ("ADDED", "b")}
    assert (third.type, third.name) == ("DELETED", "a")


async def test_case_53_a_selector_makes_objects_come_and_go(dbs: Databases, http: Http) -> None:
    async def label(value: str) -> int:
        patched = (await http.patch(dbs.at("a"), {"metadata": {"labels": {"k": value}}})).expect(200)
        return int(patched["metadata"]["resourceVersion"])

    created = await dbs.create("a")
    start = created["metadata"]["resourceVersion"]
    async with http.watch(dbs.path(), resourceVersion=start, labelSelector="k=v") as watch:
        versions = [await label("v"), await label("z")]
        await label("y")
        await dbs.create("end", metadata={"labels": {"k": "v"}})
        events = await watch.take(3)

    assert [(event.type, event.name) for event in events] == [
        ("ADDED", "a"),
        ("DELETED", "a"),
        ("ADDED", "end"),
    ]
    assert [event.version for event in events[:2]] == versions
    assert events[1].object["metadata"]["labels"] == {"k": "v"}


async def test_case_54_a_forgotten_version_is_an_error_event_in_an_ordinary_stream(
    dbs: Databases, http: Http, lasting: Server
) -> None:
    before = await dbs.revision()
    await dbs.create("a")
    lasting.forget_history(dbs.path(), before)
    async with http.watch(dbs.path(), resourceVersion="1") as watch:
        assert watch.status == 200
        (event,) = await watch.rest()

    assert event.type == "ERROR"
    assert event.object["kind"] == "Status"
    assert (event.object["code"], event.object["reason"]) == (410, "Expired")
    assert "too old resource version" in event.object["message"]


async def test_case_55_a_streaming_list_ends_with_a_bookmark_and_goes_on(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    created = await dbs.create("b")
    streaming: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with http.watch(dbs.path(), **streaming) as watch:
        initial = await watch.until("BOOKMARK")
        await dbs.create("c")
        live = await watch.next()

    assert [(event.type, event.name) for event in sorted(initial[:-1], key=lambda e: e.name)] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
    ]
    bookmark = initial[-1]
    assert bookmark.object["metadata"]["annotations"][INITIAL_EVENTS_END] == "true"
    assert bookmark.object["kind"] == "Database"
    assert bookmark.version >= int(created["metadata"]["resourceVersion"])
    assert (live.type, live.name) == ("ADDED", "c")


@pytest.mark.parametrize(
    "query", [{"sendInitialEvents": "true"}, {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"}]
)
async def test_case_55_a_streaming_list_needs_both_options(
    dbs: Databases, http: Http, query: dict[str, Any]
) -> None:
    assert (await http.get(dbs.path(), watch="1", **query)).status == 422


async def test_case_56_a_bookmark_moves_an_idle_watch_past_other_writes(
    dbs: Databases, http: Http, lasting: Server
) -> None:
    async with http.watch(REGIONS):
        pass  # a cache that is filled when first asked for knows nothing of the time before
    start = await dbs.revision()
    async with http.watch(
        REGIONS, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds=5
    ) as watch:
        other = await dbs.create("other")
        events = await watch.rest()

    bookmarks = [event for event in events if event.type == "BOOKMARK"]
    assert bookmarks
    assert bookmarks[-1].object["kind"] == "Region"
    reached = bookmarks[-1].version
    assert reached >= int(other["metadata"]["resourceVersion"])

    lasting.forget_history(dbs.path(), start)
    region: Json = {
        "apiVersion": "nav.example.io/v1",
        "kind": "Region",
        "metadata": {"name": f"r-{dbs.namespace}"},
    }
    async with http.watch(REGIONS, resourceVersion=str(reached)) as watch:
        (await http.post(REGIONS, region)).expect(201)
        event = await watch.next()
    assert (event.type, event.name) == ("ADDED", region["metadata"]["name"])


async def test_case_57_a_table_watch_tells_its_columns_once(dbs: Databases, http: Http) -> None:
    start = await dbs.revision()
    async with http.watch(dbs.path(), accept=TABLE, resourceVersion=start) as watch:
        await dbs.create("a")
        await dbs.create("b")
        first, second = (event.object for event in await watch.take(2))

    assert [column["name"] for column in first["columnDefinitions"]][:2] == ["Name", "Engine"]
    assert second["columnDefinitions"] is None
    assert [table["rows"][0]["cells"][0] for table in (first, second)] == ["a", "b"]
    assert {table["kind"] for table in (first, second)} == {"Table"}


async def test_case_57_a_watch_speaks_the_version_of_its_address(dbs: Databases, http: Http) -> None:
    start = await dbs.revision()
    async with http.watch(dbs.path("v1alpha1"), resourceVersion=start) as watch:
        await dbs.create("a")
        event = await watch.next()
        assert any(V1ALPHA1 in warning for warning in watch.warnings)

    assert event.object["apiVersion"] == V1ALPHA1


async def test_case_58_all_watchers_see_one_sequence(dbs: Databases, http: Http) -> None:
    watchers, writers, rounds = 30, 4, 50
    start = await dbs.revision()

    async def write(writer: int) -> None:
        name = f"w{writer}"
        await dbs.create(name)
        for n in range(rounds - 1):
            patch = {"metadata": {"annotations": {"n": str(n)}}}
            (await http.patch(dbs.at(name), patch)).expect(200)

    async with contextlib.AsyncExitStack() as stack:
        watches = [
            await stack.enter_async_context(http.watch(dbs.path(), resourceVersion=start))
            for _ in range(watchers)
        ]
        await asyncio.gather(*(write(writer) for writer in range(writers)))
        seen = await asyncio.gather(*(watch.take(writers * rounds) for watch in watches))

    def sequence(events: list[Event]) -> str:
        return json.dumps([(event.type, event.name, event.version) for event in events])

    assert len({sequence(events) for events in seen}) == 1
    versions = [event.version for event in seen[0]]
    assert versions == sorted(set(versions))
