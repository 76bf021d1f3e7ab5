"""A watch that is opened in the very moment in which the server goes down ends with it, and is opened again at the next."""

from __future__ import annotations

import asyncio
import random

from pilothouse.api.kind_names import ConfigMap
from pilothouse.client.informer import Informer
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.simulated_server import SimulatedServer


def test_whatever_the_moment() -> None:
    for seed in range(6):
        for moment in range(6):
            with SeededLoop(seed) as loop:
                assert loop.run_until_complete(_followed(loop, moment)) == ["a"], (seed, moment)


async def _followed(loop: SeededLoop, moment: int) -> list[str]:
    """What a cache has after a restart of its server, so many turns of the loop after it was started."""
    clock = LoopClock(loop)
    server = SimulatedServer(clock, seed=1)
    await server.start()
    informer = Informer(server.api("follower"), ConfigMap, random.Random(1), clock)
    following = asyncio.ensure_future(informer.run())
    for _ in range(moment):
        await asyncio.sleep(0)
    await server.stop()
    await server.start()
    await server.api("user").create(ConfigMap, {"metadata": {"name": "a", "namespace": "default"}})
    # Less than it takes a client to find out by itself that nobody speaks to it.
    await asyncio.sleep(20)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await server.stop()
    return [one.name for one in informer.cache.list("default")]
