"""The work queue: each key once, one hand at a time, higher priorities first, groups in turn, alarms, back-off."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.base.backoff import Backoff
from pilothouse.runtime.work_queue import WorkQueue


def a_queue() -> WorkQueue[str]:
    return WorkQueue(group=lambda key: key[0], retry=Backoff(first=0.001, factor=2.0, longest=0.004))


async def drained(queue: WorkQueue[str]) -> list[str]:
    taken = []
    while len(queue):
        key = await queue.get()
        taken.append(key)
        queue.done(key)
    return taken


async def test_a_key_waits_once_however_often_it_is_added() -> None:
    queue = a_queue()
    for _ in range(3):
        queue.add("a1")
    assert await drained(queue) == ["a1"]


async def test_groups_take_turns() -> None:
    queue = a_queue()
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    assert await drained(queue) == ["a1", "b1", "a2", "a3"]


async def test_a_higher_priority_comes_first_and_a_raised_one_counts() -> None:
    queue = a_queue()
    queue.add("a1")
    queue.add("b1", priority=1)
    queue.add("c1")
    queue.add("c1", priority=2)
    assert await drained(queue) == ["c1", "b1", "a1"]
    assert queue.idle


async def test_a_key_in_hand_is_given_to_nobody_else_and_comes_again() -> None:
    queue = a_queue()
    queue.add("a1")
    key = await queue.get()
    queue.add("a1")
    assert len(queue) == 0
    queue.done(key)
    assert await drained(queue) == ["a1"]


async def test_the_earlier_of_two_alarms_counts_and_working_on_a_key_turns_it_off() -> None:
    queue = a_queue()
    queue.later("a1", 1000)
    queue.later("a1", 0.001)
    queue.later("a1", 2000)
    async with asyncio.timeout(60):
        key = await queue.get()
    assert key == "a1"
    assert queue.next_timer is None
    queue.done(key)


@pytest.mark.looptime
async def test_nav_P05_alarms_go_off_in_their_order_each_for_its_key_and_none_early() -> None:
    queue, begun = a_queue(), asyncio.get_running_loop().time()
    delays = {"a1": 3.0, "b1": 0.5, "c1": 1.0}
    for key, seconds in delays.items():
        queue.later(key, seconds)
    for expected in ("b1", "c1", "a1"):
        key = await queue.get()
        assert key == expected
        assert asyncio.get_running_loop().time() - begun >= delays[key]
        queue.done(key)
    assert queue.next_timer is None


@pytest.mark.looptime
async def test_nav_P06_an_alarm_that_is_forgotten_never_goes_off() -> None:
    queue = a_queue()
    queue.later("a1", 0.5)
    queue.later("b1", 1.0)
    queue.forget("a1")
    assert await queue.get() == "b1"
    queue.done("b1")
    await asyncio.sleep(100)
    assert len(queue) == 0
    assert queue.idle


async def test_failures_in_a_row_wait_longer_until_one_succeeds() -> None:
    queue = a_queue()
    assert [queue.failed("a1") for _ in range(4)] == [0.001, 0.002, 0.004, 0.004]
    queue.succeeded("a1")
    assert queue.failures("a1") == 0
    assert queue.failed("a1") == 0.001
    queue.clear()
    assert queue.next_timer is None


async def test_a_cancelled_taker_passes_its_wake_up_on() -> None:
    queue = a_queue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a1")
    first.cancel()
    async with asyncio.timeout(60):
        assert await second == "a1"
    with pytest.raises(asyncio.CancelledError):
        await first


@given(st.lists(st.tuples(st.sampled_from(["a1", "a2", "b1", "c1"]), st.integers(0, 2)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_or_doubled(steps: list[tuple[str, int]]) -> None:
    async def scenario() -> None:
        queue = a_queue()
        inside: Counter[str] = Counter()
        owed: set[str] = set()

        async def worker() -> None:
            while True:
                key = await queue.get()
                owed.discard(key)
                inside[key] += 1
                assert inside[key] == 1
                await asyncio.sleep(0)
                inside[key] -= 1
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(3)]
        for key, priority in steps:
            owed.add(key)
            queue.add(key, priority)
            if priority == 2:
                await asyncio.sleep(0)
        for _ in range(10 * len(steps) + 10):
            await asyncio.sleep(0)
        assert queue.idle
        for task in workers:
            task.cancel()
        ended = await asyncio.gather(*workers, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended
        assert not owed

    asyncio.run(scenario())
