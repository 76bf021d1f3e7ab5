"""Twenty thousand documents, and traffic that never ends, while a cluster is scaled, reconfigured and moved up a version.

Whatever was acknowledged is there at the end. Searches are never without an answer for longer than a node takes to be restarted, and each step is told
in the conditions. A soak has two hundred thousand documents, and moves on to the next major version, as
``test_kills_at_any_step_change_nothing_in_the_end.py`` does in any case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.elasticsearch_on_up import ElasticsearchOnUp, ObservedNode, pool
from tests.kit.elasticsearch_traffic import Traffic
from tests.kit.status_history import StatusHistory

SOAK = "PILOTHOUSE_SOAK" in os.environ
DOCUMENTS = 200_000 if SOAK else 20_000
FIRST = "7.17.9"
LATER = ("7.17.29", "8.17.0") if SOAK else ("7.17.29",)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_scaled_reconfigured_and_upgraded_under_traffic(tmp_path: Path) -> None:
    async with ElasticsearchOnUp.open(tmp_path, versions=(FIRST, *LATER)) as installation:
        demo = await installation.cluster("demo", pools=[pool("data", 3)], version=FIRST)
        await demo.until(lambda seen: seen.is_done)
        async with (
            StatusHistory.of(installation.kubeconfig, "demo") as logbook,
            Traffic.through(await demo.address(), "books") as traffic,
        ):
            await traffic.make_index(shards=3, replicas=1)
            await traffic.load(DOCUMENTS)
            async with traffic.going_on():
                await demo.patch({"nodePools": [pool("data", 2)]})
                await demo.until(lambda seen: seen.is_done and seen.nodes == 2)
                assert {"Draining", "Shrinking"} <= logbook.turned_page()

                await demo.patch({"nodePools": [pool("data", 3)]})
                await demo.until(lambda seen: seen.is_done and seen.nodes == 3)
                assert logbook.turned_page() & {"ScalingUp", "NodesStarting"}

                await demo.patch({"config": {"search.max_buckets": 20_000}})
                await demo.until(lambda seen: seen.is_done)
                assert "RollingConfiguration" in logbook.turned_page()

                for version in LATER:
                    await demo.patch({"version": version})
                    await demo.until(runs(version))
                    assert "RollingVersion" in logbook.turned_page()

            assert await traffic.lost() == {}
            # Each node was restarted for its configuration and for each version, and was seen to be away.
            assert sorted(logbook.restarts) == [f"es-demo-data-{ordinal}" for ordinal in range(3)]
            assert all(len(each) > len(LATER) for each in logbook.restarts.values())
            print(f"{traffic.story}\n{logbook.story}")
            assert traffic.longest_gap <= logbook.longest_restart


def runs(version: str) -> Callable[[ObservedNode], bool]:
    return lambda seen: seen.is_done and seen.version == version
