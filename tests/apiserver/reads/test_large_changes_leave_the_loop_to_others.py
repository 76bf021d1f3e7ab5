"""One change of a large object to many watchers: it is written in slices, and takes memory once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.apiserver.reads.world import TABLE, Stream, World

from pilothouse.apiserver.storage.fanout import AT_A_LOOK, AT_ONCE, HIGH_MARK, LARGE

pytestmark = pytest.mark.looptime
MANY = 60
HUGE = "x" * (2 * LARGE)
STEP = 0.001


async def open_many(world: World, stack: AsyncExitStack, *, slow: bool, **options: str) -> list[Stream]:
    streams = [Stream(slow=slow) for _ in range(MANY)]
    for stream in streams:
        await stack.enter_async_context(world.watching(sink=stream, **options))
    return streams


async def most_at_once(streams: list[Stream], seconds: float) -> int:
    """The most bytes that were written to them within a step of time, which is less than between two looks."""
    most, before = 0, sum(stream.size for stream in streams)
    for _ in range(round(seconds / STEP)):
        await asyncio.sleep(STEP)
        size = sum(stream.size for stream in streams)
        most, before = max(most, size - before), size
    return most


async def test_watchers_that_take_nothing_cost_a_slice_each(world: World) -> None:
    async with AsyncExitStack() as stack:
        streams = await open_many(world, stack, slow=True)
        await world.put("a", spec={"blob": HUGE})
        await asyncio.sleep(5)
        assert all(0 < stream.size <= HIGH_MARK for stream in streams)


async def test_a_large_change_is_written_a_little_at_a_time(world: World) -> None:
    async with AsyncExitStack() as stack:
        streams = await open_many(world, stack, slow=False)
        await world.put("a", spec={"blob": HUGE})
        assert await most_at_once(streams, 2) <= 2 * AT_A_LOOK
        for stream in streams:
            (event,) = stream.events
            assert event["object"]["spec"]["blob"] == HUGE


async def test_many_small_writes_are_bounded_together(world: World) -> None:
    blob = "x" * (AT_ONCE // 20)
    async with AsyncExitStack() as stack:
        streams = await open_many(world, stack, slow=False)
        await world.put("a", spec={"blob": blob})
        assert await most_at_once(streams, 1) <= AT_ONCE + 2 * len(blob)
        assert [stream.brief for stream in streams] == [[("ADDED", "a")]] * MANY


async def test_nothing_is_lost_or_out_of_order(world: World) -> None:
    slow, table = Stream(slow=True), Stream()
    async with (
        world.watching(sink=slow),
        world.watching("includeObject=Object", sink=table, accept=TABLE),
    ):
        for count in range(4):
            await world.put("a", spec={"blob": HUGE, "count": count})
            await world.put("b", spec={"count": count})
        while len(slow.lines) < 8 or not slow.lines[-1].endswith(b"}"):
            slow.drain()
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        slow.drain()
        await asyncio.sleep(1)
        expected = [(name, count) for count in range(4) for name in ("a", "b")]
        assert [
            (event["object"]["metadata"]["name"], event["object"]["spec"]["count"]) for event in slow.events
        ] == expected
        rows = [event["object"]["rows"][0]["object"] for event in table.events]
        assert [(row["metadata"]["name"], row["spec"]["count"]) for row in rows] == expected


async def test_a_beginning_of_large_objects_is_sent_in_slices(world: World) -> None:
    for name in ("a", "b"):
        await world.put(name, spec={"blob": HUGE})
    slow = Stream(slow=True)
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with world.watching(query, sink=slow):
        await asyncio.sleep(1)
        assert 0 < slow.size <= HIGH_MARK
        while slow.size < 2 * len(HUGE) or slow.buffered():
            slow.drain()
            await asyncio.sleep(0.1)
        assert [event["type"] for event in slow.events] == ["ADDED", "ADDED", "BOOKMARK"]


async def test_a_line_that_was_begun_is_finished_after_the_time_is_up(world: World) -> None:
    slow = Stream(slow=True)
    async with world.watching("timeoutSeconds=3", sink=slow) as (_, task):
        await world.put("a", spec={"blob": HUGE})
        await asyncio.sleep(4)
        assert not task.done()
        async with asyncio.timeout(60):
            while not task.done():
                slow.drain()
                await asyncio.sleep(0.1)
        assert [event["type"] for event in slow.events] == ["ADDED"]
