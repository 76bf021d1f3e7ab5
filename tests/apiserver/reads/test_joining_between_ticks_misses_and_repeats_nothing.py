from __future__ import annotations

import asyncio

import pytest
from tests.apiserver.reads.world import World

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("after_start", [True, False])
async def test_what_waits_for_the_tick_is_told_once(world: World, after_start: bool) -> None:
    start = await world.put("r", plural="regions")
    query = f"resourceVersion={start}" if after_start else ""
    async with world.watching(query) as (early, _):
        await world.put("a")
        await early.count(1)
        # No time has passed since that chunk, so this change waits for the next tick.
        await world.put("b")
        await world.cache.fresh()
        assert len(early.events) == 1
        async with world.watching(query) as (late, _):
            await asyncio.sleep(1)
            assert early.brief == late.brief == [("ADDED", "a"), ("ADDED", "b")]
            await world.put("c")
            await late.count(3)
