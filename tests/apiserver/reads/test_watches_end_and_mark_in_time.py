from __future__ import annotations

import asyncio

import pytest
from tests.apiserver.reads.world import PARTIAL, TABLE, World

from pilothouse.apiserver.storage.fanout import BOOKMARK_EVERY

pytestmark = pytest.mark.looptime


async def test_a_watch_ends_when_the_client_said(world: World) -> None:
    loop = asyncio.get_running_loop()
    async with world.watching("timeoutSeconds=5") as (stream, task):
        start = loop.time()
        await task
        assert loop.time() - start == pytest.approx(5, abs=0.1)
        assert stream.events == []


async def test_without_a_word_it_ends_after_half_an_hour_to_an_hour(world: World) -> None:
    loop = asyncio.get_running_loop()
    for query in ("", "timeoutSeconds=0"):
        async with world.watching(query) as (_, task):
            start = loop.time()
            await task
            assert 1800 <= loop.time() - start <= 3600


async def test_no_watch_outlives_an_hour(world: World) -> None:
    loop = asyncio.get_running_loop()
    async with world.watching("timeoutSeconds=999999") as (_, task):
        start = loop.time()
        await task
        assert loop.time() - start == pytest.approx(3600, abs=1)


async def test_case_56_an_idle_kind_is_told_how_far_the_others_are(world: World) -> None:
    await world.put("a")
    start = world.cache.revision
    async with world.watching(f"resourceVersion={start}&allowWatchBookmarks=true") as (stream, _):
        other = await world.put("r", plural="regions")
        await asyncio.sleep(BOOKMARK_EVERY + 1)
        (mark,) = stream.events
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["kind"] == "Database"
        assert int(mark["object"]["metadata"]["resourceVersion"]) >= other
        assert set(mark["object"]) == {"kind", "apiVersion", "metadata"}


async def test_the_last_mark_comes_shortly_before_the_end(world: World) -> None:
    async with world.watching("timeoutSeconds=30&allowWatchBookmarks=true&resourceVersion=1") as (
        stream,
        task,
    ):
        await asyncio.sleep(20)
        await world.put("r", plural="regions")
        await world.cache.fresh()
        assert stream.events == []
        await task
        (mark,) = stream.events
        assert mark["object"]["metadata"]["resourceVersion"] == str(world.cache.revision)


async def test_a_watch_of_a_second_gets_its_mark_too(world: World) -> None:
    async with world.watching("timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=1") as (
        stream,
        task,
    ):
        await task
        assert [event["type"] for event in stream.events] == ["BOOKMARK"]


async def test_who_did_not_ask_gets_no_marks(world: World) -> None:
    async with world.watching("timeoutSeconds=300&resourceVersion=1") as (stream, task):
        await task
        assert stream.events == []


async def test_marks_come_in_the_form_of_the_watch(world: World) -> None:
    query = "timeoutSeconds=10&allowWatchBookmarks=true&resourceVersion=1"
    for accept, kind in ((PARTIAL, "PartialObjectMetadata"), (TABLE, "Table")):
        async with world.watching(query, accept=accept) as (stream, task):
            await task
            (mark,) = stream.events
            assert mark["object"]["kind"] == kind
            assert mark["object"]["metadata"]["resourceVersion"]
