"""The simulator's event loop: time jumps, order is the seed's, nothing leaves the bottle."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pilothouse.sim.loop import Escape, LoopClock, SeededLoop, Stuck


def order(seed: int) -> list[str]:
    seen: list[str] = []

    async def one(name: str) -> None:
        for turn in range(3):
            await asyncio.sleep(0)
            seen.append(f"{name}{turn}")

    async def scenario() -> None:
        await asyncio.gather(*(one(name) for name in "abcd"))

    with SeededLoop(seed) as loop:
        loop.run_until_complete(scenario())
    return seen


def test_a_day_passes_at_once() -> None:
    with SeededLoop() as loop:
        clock = LoopClock(loop)
        began = clock.now()
        loop.run_until_complete(asyncio.sleep(86400))
        assert loop.time() == 86400
        assert clock.now() - began == 86400
        assert loop.steps < 10


def test_the_same_seed_gives_the_same_order_and_others_give_others() -> None:
    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(20)}) > 10


def test_each_task_keeps_its_own_order() -> None:
    for seed in range(20):
        for name in "abcd":
            assert [step for step in order(seed) if step[0] == name] == [f"{name}{turn}" for turn in range(3)]


def test_callbacks_keep_their_order() -> None:
    for seed in range(20):
        seen: list[int] = []
        with SeededLoop(seed) as loop:
            for number in range(10):
                loop.call_soon(seen.append, number)
            loop.run_until_complete(asyncio.sleep(0))
        assert seen == list(range(10))


def test_waiting_for_what_never_comes_is_told_with_names() -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    with SeededLoop() as loop, pytest.raises(Stuck, match="waits for godot"):
        loop.run_until_complete(loop.create_task(forever(), name="waits for godot"))


def test_threads_and_sockets_are_refused() -> None:
    async def thread() -> None:
        await asyncio.to_thread(threading.get_ident)

    async def socket() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    for escape in (thread, socket):
        with SeededLoop() as loop, pytest.raises(Escape):
            loop.run_until_complete(escape())
