"""A watch that is opened in the very moment in which the server goes down ends with it, and is opened again at the next."""

from __future__ import annotations

import asyncio
import random

from pilothouse.api.nouns import ConfigMap
from pilothouse.client.informer import Informer
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.server import Server


def test_whatever_the_moment() -> None:
    for seed in range(20):
        with SeededLoop(seed) as loop:
            assert loop.run_until_complete(_followed(loop, seed)) == ["a"], seed


async def _followed(loop: SeededLoop, seed: int) -> list[str]:
    clock = LoopClock(loop)
    server = Server(clock, seed=seed)
    await server.start()
    informer = Informer(server.api("follower"), ConfigMap, random.Random(seed), clock)
    following = asyncio.ensure_future(informer.run())
    await server.stop()
    await server.start()
    await server.api("user").create(ConfigMap, {"metadata": {"name": "a", "namespace": "default"}})
    # Less than it takes a client to find out by itself that nobody speaks to it.
    await asyncio.sleep(20)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await server.stop()
    return [one.name for one in informer.cache.list("default")]
