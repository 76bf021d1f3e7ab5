"""A leader that does not see its cluster, while others do, lets one of them lead."""

from __future__ import annotations

import asyncio
from random import Random

from tests.kit.pilots import cluster_tree, pilot_tree

from pilothouse.api.kind_names import ElasticsearchCluster, Pilot
from pilothouse.api.objects import Object
from pilothouse.client.api import Api
from pilothouse.pilot.election_candidacy import OUT_OF_CLUSTER_SECONDS
from pilothouse.pilot.peers import PilotPeers
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.simulated_server import SimulatedServer

SPACE = "default"
ONE, TWO = "es-demo-data-0", "es-demo-data-1"
LONG = 60.0
"""Seconds in which an election is over."""


async def is_ready(api: Api, name: str, status: str) -> None:
    said = {
        "type": "Ready",
        "status": status,
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await api.patch(Pilot, name, SPACE, {"status": {"conditions": [said]}}, subresource="status")


class Told:
    """A pilot that says every second whether its instance is ready."""

    def __init__(self, peers: PilotPeers) -> None:
        self.peers = peers
        self.serves = True

    async def sail(self) -> None:
        running = asyncio.create_task(self.peers.run())
        try:
            while True:
                self.peers.update(serves=self.serves)
                await asyncio.sleep(1)
        finally:
            running.cancel()


def test_another_leads_while_one_is_astray_and_nobody_gives_up_a_cluster_that_was_never_formed() -> None:
    with SeededLoop(1) as loop:
        clock = LoopClock(loop)
        server = SimulatedServer(clock, seed=1)
        api = server.api("test")

        async def pilot(cluster: Object, name: str) -> Object:
            return await api.create(Pilot, pilot_tree(cluster, name))

        async def scene() -> None:
            cluster = await api.create(ElasticsearchCluster, cluster_tree("demo", nodes=2, version="8.17.0"))
            members = {
                name: Told(
                    PilotPeers(api, await pilot(cluster, name), clock, Random(name), changed=lambda: None)
                )
                for name in (ONE, TWO)
            }

            def leaders() -> list[str]:
                return [name for name, each in members.items() if each.peers.leads]

            sailing = [asyncio.create_task(each.sail()) for each in members.values()]
            await asyncio.sleep(LONG)
            [first] = leaders()
            [second] = {ONE, TWO} - {first}

            # Nobody serves yet: somebody has to form the cluster.
            for each in members.values():
                each.serves = False
            await asyncio.sleep(OUT_OF_CLUSTER_SECONDS + LONG)
            assert leaders() == [first]

            # The other does: the cluster is there, and the first does not see it.
            members[second].serves = True
            await is_ready(api, second, "True")
            await asyncio.sleep(OUT_OF_CLUSTER_SECONDS / 2)
            assert leaders() == [first], "it may be back in a moment"
            await asyncio.sleep(OUT_OF_CLUSTER_SECONDS + LONG)
            assert leaders() == [second]

            # It stands again when it serves, or when nobody else does.
            await is_ready(api, second, "Unknown")
            members[second].serves = False
            members[first].serves = True
            await is_ready(api, first, "True")
            await asyncio.sleep(OUT_OF_CLUSTER_SECONDS + LONG)
            assert leaders() == [first]
            for task in sailing:
                task.cancel()
            await asyncio.gather(*sailing, return_exceptions=True)

        async def whole() -> None:
            async with server.running():
                await scene()

        loop.run_until_complete(whole())
