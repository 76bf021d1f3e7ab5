from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.apiserver.reads.world import PARTIAL, TABLE, World, new_world, world_over

from pilothouse.aio.ring_buffer import Bounds
from pilothouse.meta.errors import StatusError
from pilothouse.store.memory import MemoryStore


def revisions(events: list[dict[str, Any]]) -> list[int]:
    return [int(event["object"]["metadata"]["resourceVersion"]) for event in events]


async def test_case_52_changes_come_in_order_with_rising_revisions(world: World) -> None:
    start = await world.put("a")
    async with world.watching(f"resourceVersion={start}") as (stream, _):
        await world.put("a", spec={"replicas": 2})
        await world.put("a", spec={"replicas": 3})
        gone = await world.drop("a")
        await world.put("a", spec={"replicas": 4})
        events = await stream.count(4)
    assert [event["type"] for event in events] == ["MODIFIED", "MODIFIED", "DELETED", "ADDED"]
    assert revisions(events) == sorted(set(revisions(events)))
    assert events[2]["object"]["spec"] == {"replicas": 3}
    assert revisions(events)[2] == gone


async def test_without_a_revision_what_there_is_comes_first(world: World) -> None:
    await world.put("b")
    await world.put("a")
    for query in ("", "resourceVersion=0"):
        async with world.watching(query) as (stream, _):
            await stream.count(2)
            await world.put("c")
            await stream.count(3)
            assert stream.brief == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
            await world.drop("c")
            await stream.count(4)


async def test_events_of_other_namespaces_and_kinds_stay_out(world: World) -> None:
    async with world.watching(namespace="t") as (here, _), world.watching(namespace="") as (everywhere, _):
        await world.put("x", namespace="t-2")
        await world.put("r", plural="regions")
        await world.put("a", namespace="t")
        await everywhere.count(2)
        await here.count(1)
        assert here.brief == [("ADDED", "a")]
        assert everywhere.brief == [("ADDED", "x"), ("ADDED", "a")]


async def test_a_single_object_by_name(world: World) -> None:
    await world.put("a")
    await world.put("a-1")
    query = "fieldSelector=metadata.name%3Da"
    async with world.watching(query) as (stream, _):
        await world.put("a-1", spec={"replicas": 2})
        await world.put("a", spec={"replicas": 2})
        await stream.count(2)
        assert stream.brief == [("ADDED", "a"), ("MODIFIED", "a")]


async def test_case_53_entering_and_leaving_a_selection(world: World) -> None:
    start = await world.put("a", spec={"replicas": 1})
    query = f"resourceVersion={start}&labelSelector=k%3Dv"
    async with world.watching(query) as (stream, _):
        entered = await world.put("a", labels={"k": "v"}, spec={"replicas": 1})
        await world.put("a", labels={"k": "v"}, spec={"replicas": 2})
        left = await world.put("a", labels={"k": "z"}, spec={"replicas": 3})
        await world.put("a", labels={"k": "z"}, spec={"replicas": 4})
        back = await world.put("a", labels={"k": "v"}, spec={"replicas": 5})
        events = await stream.count(4)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert [revisions(events)[index] for index in (0, 2, 3)] == [entered, left, back]
    assert events[2]["object"]["spec"] == {"replicas": 2}
    assert events[2]["object"]["metadata"]["labels"] == {"k": "v"}


async def test_fields_select_like_labels(world: World) -> None:
    async with world.watching("fieldSelector=spec.engine%3Dpg") as (stream, _):
        await world.put("a", spec={"engine": "mysql"})
        await world.put("a", spec={"engine": "pg"})
        await world.put("a", spec={"engine": "mysql"})
        await stream.count(2)
        assert stream.brief == [("ADDED", "a"), ("DELETED", "a")]


async def test_case_54_a_forgotten_revision_ends_with_a_410_event() -> None:
    async with new_world(Bounds(count=3, least=0)) as world:
        first = await world.put("a")
        for count in range(10):
            await world.put("a", spec={"replicas": count})
        async with world.watching(f"resourceVersion={first}") as (stream, task):
            await task
            (event,) = stream.events
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        assert event["object"]["message"].startswith(f"too old resource version: {first} (")


async def test_history_is_forgotten_with_age() -> None:
    async with new_world(Bounds(age=60)) as world:
        first = await world.put("a")
        await world.put("a", spec={"replicas": 2})
        world.clock.advance(59)
        async with world.watching(f"resourceVersion={first}") as (stream, _):
            await stream.count(1)
            assert stream.brief == [("MODIFIED", "a")]
        world.clock.advance(2)
        async with world.watching(f"resourceVersion={first}") as (stream, task):
            await task
            assert stream.events[0]["object"]["code"] == 410


async def test_a_revision_in_the_future_is_silence_until_it_comes(world: World) -> None:
    now = await world.put("a")
    async with world.watching(f"resourceVersion={now + 2}") as (stream, _):
        for count in range(4):
            last = await world.put("a", spec={"replicas": count})
        events = await stream.count(2)
        assert revisions(events) == [last - 1, last]


async def test_case_55_a_streamed_list_ends_with_a_bookmark(world: World) -> None:
    await world.put("a")
    last = await world.put("b")
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    for more in ("", f"&resourceVersion={last}", "&resourceVersion=0"):
        async with world.watching(query + more) as (stream, _):
            events = await stream.count(3)
            assert stream.brief[:2] == [("ADDED", "a"), ("ADDED", "b")]
            mark = events[2]
            assert mark["type"] == "BOOKMARK"
            assert mark["object"]["kind"] == "Database"
            assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert int(mark["object"]["metadata"]["resourceVersion"]) >= last
            await world.put("a", spec={"again": more})
            await stream.count(4)
            assert stream.brief[3] == ("MODIFIED", "a")


async def test_a_streamed_list_of_nothing_ends_with_a_bookmark(world: World) -> None:
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with world.watching(query) as (stream, _):
        events = await stream.count(1)
        assert events[0]["type"] == "BOOKMARK"


async def test_from_now_on_only(world: World) -> None:
    await world.put("a")
    async with world.watching("sendInitialEvents=false&resourceVersionMatch=NotOlderThan") as (stream, _):
        await world.put("b")
        await stream.count(1)
        assert stream.brief == [("ADDED", "b")]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("sendInitialEvents=true", 422),
        ("sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1", 422),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", 422),
        ("resourceVersion=abc", 400),
        ("timeoutSeconds=abc", 400),
        ("labelSelector=a===", 400),
        ("fieldSelector=spec.replicas%3D1", 400),
    ],
)
async def test_options_that_make_no_sense_are_refused_before_the_stream(
    world: World, query: str, code: int
) -> None:
    with pytest.raises(StatusError) as caught:
        async with world.watching(query):
            pass
    assert caught.value.code == code


async def test_case_57_tables_tell_their_columns_once(world: World) -> None:
    start = await world.put("a")
    async with world.watching(f"resourceVersion={start}", accept=TABLE) as (stream, _):
        await world.put("a", spec={"engine": "pg", "replicas": 1})
        await stream.count(1)
        await world.put("a", spec={"engine": "pg", "replicas": 2})
        first, second = await stream.count(2)
    assert [column["name"] for column in first["object"]["columnDefinitions"]][:2] == ["Name", "Engine"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:3] == ["a", "pg", 2]


async def test_tables_tell_their_columns_to_each_watcher_of_a_group(world: World) -> None:
    await world.put("a")
    async with world.watching(accept=TABLE) as (one, _):
        await one.count(1)
        start = world.cache.revision
        async with world.watching(f"resourceVersion={start}", accept=TABLE) as (two, _):
            await world.put("a", spec={"replicas": 2})
            await one.count(2)
            await two.count(1)
            assert [bool(event["object"]["columnDefinitions"]) for event in one.events] == [True, False]
            assert [bool(event["object"]["columnDefinitions"]) for event in two.events] == [True]


async def test_metadata_alone(world: World) -> None:
    await world.put("a")
    async with world.watching(accept=PARTIAL) as (stream, _):
        (event,) = await stream.count(1)
        assert event["object"]["kind"] == "PartialObjectMetadata"
        assert "spec" not in event["object"]


async def test_case_57_another_version_gets_its_own_objects(world: World) -> None:
    await world.put("a")
    async with world.watching(version="v1alpha1") as (stream, _):
        await world.drop("a")
        events = await stream.count(2)
        assert {event["object"]["apiVersion"] for event in events} == {"nav.example.io/v1alpha1"}


async def test_case_58_all_watchers_see_the_same_lines(world: World) -> None:
    streams = []
    async with asyncio.timeout(20):
        contexts = [world.watching() for _ in range(30)]
        for context in contexts:
            stream, _ = await context.__aenter__()
            streams.append(stream)
        for count in range(200):
            await world.put(f"db-{count % 7}", spec={"replicas": count})
        for stream in streams:
            await stream.count(200)
        for context in contexts:
            await context.__aexit__(None, None, None)
    assert {b"\n".join(stream.lines) for stream in streams} == {b"\n".join(streams[0].lines)}
    assert revisions(streams[0].events) == sorted(set(revisions(streams[0].events)))


async def test_changes_of_one_moment_come_as_one_chunk(world: World) -> None:
    async with world.watching() as (stream, _):
        await asyncio.gather(*(world.put(f"db-{index}") for index in range(50)))
        await stream.count(50)
        assert len(stream.chunks) < 10


async def test_a_server_that_starts_again_goes_on_from_an_old_revision() -> None:
    store = MemoryStore()
    async with world_over(store) as world:
        first = await world.put("a")
        await world.put("b")
        await world.drop("b")
    async with world_over(store) as again, again.watching(f"resourceVersion={first}") as (stream, _):
        await stream.count(2)
        assert stream.brief == [("ADDED", "b"), ("DELETED", "b")]
    await store.close()


async def test_a_server_that_starts_again_after_compaction_says_410() -> None:
    store = MemoryStore()
    async with world_over(store) as world:
        first = await world.put("a")
        last = await world.put("b")
        await store.compact(last)
    async with world_over(store) as again, again.watching(f"resourceVersion={first}") as (stream, task):
        await task
        assert stream.events[0]["object"]["code"] == 410
    await store.close()


async def test_a_kind_that_is_no_longer_served_ends_its_watches(world: World) -> None:
    async with world.watching() as (_, task), world.watching(plural="regions", namespace="") as (_, other):
        world.catalog.remove("nav.example.io", "databases")
        await asyncio.wait_for(task, 60)
        assert not other.done()


async def test_when_the_server_goes_down_watches_end_cleanly_and_no_new_ones_begin(world: World) -> None:
    async with world.watching() as (stream, task):
        await world.put("a")
        await world.cache.fresh()
        world.watches.end_all()
        await asyncio.wait_for(task, 60)
        assert stream.brief == [("ADDED", "a")]
    with pytest.raises(StatusError) as caught:
        async with world.watching():
            pass
    assert caught.value.code == 429


async def test_a_watch_that_is_dropped_leaves_nothing_behind(world: World) -> None:
    async with world.watching():
        assert len(world.watches.fanout) == 1
    assert len(world.watches.fanout) == 0
    await world.put("a")
