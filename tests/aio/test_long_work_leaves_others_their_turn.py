from __future__ import annotations

import asyncio

from pilothouse.aio.cooperative import yielding


async def test_others_have_their_turn_between_stretches() -> None:
    taken: list[int] = []
    seen: list[int] = []

    async def look() -> None:
        while len(taken) < 10:
            seen.append(len(taken))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await yielding(range(10), taken.append, stretch=3)
    await looking
    assert taken == list(range(10))
    assert seen == [3, 6, 9]


async def test_short_work_is_done_in_one_go() -> None:
    taken: list[int] = []
    other = asyncio.create_task(asyncio.sleep(0))
    await yielding(range(3), taken.append, stretch=3)
    assert not other.done()
    assert taken == [0, 1, 2]
    await other
