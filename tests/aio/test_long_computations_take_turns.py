"""Computations beside the loop: one at a time, owners in turn, and nothing of the loop's touched from elsewhere."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pilothouse.aio.worker_thread import WorkerThread, on_loop


async def test_an_owner_with_one_waits_for_one_of_an_owner_with_many() -> None:
    worker = WorkerThread()
    order: list[str] = []
    begin = threading.Event()

    def work(name: str) -> None:
        begin.wait(30)
        order.append(name)

    running = [asyncio.create_task(worker.run("greedy", lambda: work("greedy"))) for _ in range(5)]
    await asyncio.sleep(0)
    running.append(asyncio.create_task(worker.run("modest", lambda: work("modest"))))
    await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(*running)
    assert order == ["greedy", "greedy", "modest", "greedy", "greedy", "greedy"]


async def test_there_is_one_at_a_time() -> None:
    worker = WorkerThread()
    within = 0
    most = 0

    def work() -> None:
        nonlocal within, most
        within += 1
        most = max(most, within)
        on_loop(lambda: None)
        within -= 1

    await asyncio.gather(*(worker.run(number % 3, work) for number in range(30)))
    assert most == 1


async def test_what_belongs_to_the_loop_is_asked_of_the_loop() -> None:
    loop_thread = threading.get_ident()
    seen: list[bool] = []

    def refuse() -> None:
        seen.append(threading.get_ident() == loop_thread)
        raise LookupError("no such thing")

    def work() -> str:
        assert threading.get_ident() != loop_thread
        with pytest.raises(LookupError, match="no such thing"):
            on_loop(refuse)
        return on_loop("-".join, ["a", "b"])

    assert await WorkerThread().run("a", work) == "a-b"
    assert seen == [True]
    assert on_loop("-".join, ["c", "d"]) == "c-d"


async def test_a_cancellation_counts_once_the_computation_has_ended() -> None:
    worker = WorkerThread()
    begun, end = threading.Event(), threading.Event()
    ended: list[str] = []

    def work() -> None:
        begun.set()
        end.wait(30)
        ended.append("first")

    first = asyncio.create_task(worker.run("a", work))
    second = asyncio.create_task(worker.run("a", lambda: ended.append("second")))
    third = asyncio.create_task(worker.run("b", lambda: ended.append("third")))
    await asyncio.to_thread(begun.wait, 30)
    first.cancel()
    second.cancel()
    await asyncio.sleep(0)
    assert not first.done()
    end.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(asyncio.CancelledError):
        await second
    await third
    assert ended == ["first", "third"]


async def test_a_computation_that_fails_holds_up_nobody() -> None:
    worker = WorkerThread()

    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await worker.run("a", fail)
    assert await worker.run("a", lambda: 7) == 7
