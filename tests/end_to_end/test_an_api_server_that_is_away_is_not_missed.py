"""For two minutes the API server says nothing: databases serve, nothing is restarted, and afterwards everything that is told is true again."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from tests.end_to_end.cluster_processes import ClusterProcesses
from tests.kit.elasticsearch_on_up import Cluster, ElasticsearchOnUp, ObservedNode, is_sound, pool
from tests.kit.elasticsearch_traffic import Traffic
from tests.kit.waiting import eventually

AWAY = 120.0
"""Seconds: longer than every lease, and than pilots may be silent."""


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_two_minutes_without_an_api_server(tmp_path: Path) -> None:
    async with ElasticsearchOnUp.open(tmp_path, "--liveness-period=0s", versions=("8.17.0",)) as installation:
        demo = await installation.cluster("demo", pools=[pool("data", 2)])
        await demo.until(lambda seen: seen.is_done)
        processes = ClusterProcesses(installation, demo)
        before = await processes.lives()
        async with Traffic.through(await demo.address(), "books") as traffic:
            await traffic.make_index(shards=2, replicas=1)
            await traffic.load(2_000)
            server = installation.roles()["apiserver"]
            async with traffic.going_on():
                os.kill(server, signal.SIGSTOP)
                try:
                    await serves_for(traffic, AWAY)
                finally:
                    os.kill(server, signal.SIGCONT)
            assert installation.roles()["apiserver"] == server
            assert await traffic.lost() == {}

            async def is_told() -> bool:
                # Not those that were acknowledged: one more may have been written when the traffic ended.
                try:
                    return await copies_told(demo) == 2 * await demo.count("books")
                except OSError:  # The service has nobody behind it until the node is heard of again.
                    return False

            # What was written meanwhile is in the Pilots, and nobody is taken for silent or gone any more.
            await eventually(is_told, seconds=300)
            await demo.until(is_well)
            assert await processes.lives() == before


async def serves_for(traffic: Traffic, seconds: float) -> None:
    """Both writes and searches are answered, from the first second to the last."""
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        writes, searches = traffic.writes, traffic.searches

        async def both(writes: int = writes, searches: int = searches) -> bool:
            return traffic.writes > writes and traffic.searches > searches

        await eventually(both, seconds=120)
        await asyncio.sleep(1)


async def copies_told(cluster: Cluster) -> int:
    """How many documents the Pilots say there are, replicas included."""
    return sum(
        each.at("status", "elasticsearch", "documents") or 0
        for each in await cluster.pilots()
        if each.is_true("Ready")
    )


def is_well(seen: ObservedNode) -> bool:
    return seen.is_done and is_sound(seen.cluster)
