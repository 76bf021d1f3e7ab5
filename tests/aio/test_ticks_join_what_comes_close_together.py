from __future__ import annotations

import asyncio

import pytest

from pilothouse.aio.debounce import Debouncer

pytestmark = pytest.mark.looptime


async def test_the_first_poke_is_answered_at_once_and_those_after_it_together() -> None:
    ran: list[float] = []
    loop = asyncio.get_running_loop()
    tick = Debouncer(lambda: ran.append(loop.time()), interval=1.0)
    start = loop.time()
    tick.poke()
    tick.poke()
    await asyncio.sleep(0)
    assert len(ran) == 1
    for _ in range(5):
        await asyncio.sleep(0.1)
        tick.poke()
    await asyncio.sleep(2)
    assert [round(at - start, 3) for at in ran] == [0.0, 1.0]


async def test_a_cancelled_tick_does_not_run() -> None:
    ran: list[int] = []
    tick = Debouncer(lambda: ran.append(1), interval=1.0)
    tick.poke()
    tick.cancel()
    await asyncio.sleep(2)
    assert ran == []
    tick.poke()
    await asyncio.sleep(0)
    assert ran == [1]
