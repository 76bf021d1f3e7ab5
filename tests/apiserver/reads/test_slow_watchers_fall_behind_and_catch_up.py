from __future__ import annotations

import asyncio

import pytest
from tests.apiserver.reads.world import Stream, World, new_world

from pilothouse.aio.ring_buffer import Bounds
from pilothouse.apiserver.storage.fanout import HIGH_MARK

pytestmark = pytest.mark.looptime
BLOB = "x" * 20_000


async def churn(world: World, times: int) -> None:
    """Change an object so often, each time in a tick of its own."""
    for count in range(times):
        await world.put("a", spec={"count": count, "blob": BLOB})
        await asyncio.sleep(0.01)


async def test_one_that_does_not_drain_is_left_alone_then_gets_all_of_it(world: World) -> None:
    slow = Stream(slow=True)
    async with world.watching(sink=slow) as (stream, _), world.watching() as (quick, _):
        await churn(world, 60)
        await quick.count(60)
        assert slow.size < HIGH_MARK + 2 * len(BLOB)
        before = slow.size
        await asyncio.sleep(10)
        assert slow.size == before
        while len(slow.events) < 60:
            slow.drain()
            await asyncio.sleep(1)
        slow.drain()
        await world.put("a", spec={"count": 60})
        await stream.count(61)
        assert [event["object"]["spec"]["count"] for event in slow.events] == list(range(61))
        assert [event["type"] for event in slow.events] == ["ADDED"] + ["MODIFIED"] * 60


async def test_one_that_never_drains_is_told_it_is_too_late() -> None:
    async with new_world(Bounds(count=20, least=0)) as world:
        slow = Stream(slow=True)
        async with world.watching(sink=slow) as (_, task):
            await churn(world, 100)
            assert not task.done()
            slow.drain()
            await task
        assert slow.events[-1]["type"] == "ERROR"
        assert slow.events[-1]["object"]["code"] == 410
        counts = [event["object"]["spec"]["count"] for event in slow.events[:-1]]
        assert counts == list(range(len(counts)))


async def test_a_long_beginning_is_sent_as_it_is_taken(world: World) -> None:
    for index in range(100):
        await world.put(f"db-{index:03}", spec={"blob": BLOB})
    slow = Stream(slow=True)
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with world.watching(query, sink=slow) as (stream, _):
        assert 0 < len(slow.events) < 30
        await world.put("db-000", spec={"changed": True})
        await world.drop("db-099")
        while len(slow.events) < 103:
            slow.drain()
            await asyncio.sleep(1)
        kinds = [event["type"] for event in stream.events]
        assert kinds == ["ADDED"] * 100 + ["BOOKMARK", "MODIFIED", "DELETED"]


async def test_no_mark_is_sent_to_one_that_is_behind(world: World) -> None:
    slow = Stream(slow=True)
    query = "allowWatchBookmarks=true&timeoutSeconds=200"
    async with world.watching(query, sink=slow) as (_, task):
        await churn(world, 60)
        await asyncio.sleep(100)
        assert "BOOKMARK" not in {event["type"] for event in slow.events}
        while len(slow.events) < 60:
            slow.drain()
            await asyncio.sleep(1)
        slow.drain()
        await task
        assert slow.events[-1]["type"] == "BOOKMARK"
