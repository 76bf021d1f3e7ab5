from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pilothouse.aio.shared_call import SharedCall

pytestmark = pytest.mark.looptime


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self) -> int:
        self.calls += 1
        call = self.calls
        await asyncio.sleep(1)
        return call


async def test_a_burst_shares_one_call() -> None:
    counter = Counter()
    shared = SharedCall(counter)
    assert await asyncio.gather(*(shared() for _ in range(100))) == [1] * 100


async def test_who_comes_during_a_call_gets_the_next_one() -> None:
    counter = Counter()
    shared = SharedCall(counter)
    first = asyncio.create_task(shared())
    await asyncio.sleep(0.5)
    late = [asyncio.create_task(shared()) for _ in range(10)]
    assert await first == 1
    assert await asyncio.gather(*late) == [2] * 10


async def test_one_who_gives_up_does_not_take_the_others_call_away() -> None:
    shared = SharedCall(Counter())
    impatient = asyncio.create_task(shared())
    patient = asyncio.create_task(shared())
    await asyncio.sleep(0.5)
    impatient.cancel()
    assert await patient == 1


async def test_a_failure_reaches_everyone_and_the_next_call_is_a_new_one() -> None:
    outcomes: Iterator[OSError | int] = iter([OSError("gone"), 7])

    async def call() -> int:
        outcome = next(outcomes)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    shared = SharedCall(call)
    results = await asyncio.gather(*(shared() for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    assert await shared() == 7
