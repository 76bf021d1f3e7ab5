"""Elasticsearch 6.8: from one master to three, restarted, and back to one. As many masters have to see each other as can't be split, at each step."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.elasticsearch_on_up import Cluster, ElasticsearchOnUp, pool
from tests.kit.elasticsearch_traffic import Traffic
from tests.kit.status_history import StatusHistory

MINIMUM = "discovery.zen.minimum_master_nodes"


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_made_scaled_and_restarted_with_the_right_majority(tmp_path: Path) -> None:
    async with ElasticsearchOnUp.open(tmp_path, versions=("6.8.23",)) as installation:
        demo = await installation.cluster("demo", pools=[pool("data", 1)], version="6.8.23")
        await demo.until(lambda seen: seen.is_done)
        assert await majority(demo) == (1, 1)
        async with (
            StatusHistory.of(installation.kubeconfig, "demo") as logbook,
            Traffic.through(await demo.address(), "books") as traffic,
        ):
            await traffic.make_index(shards=2, replicas=0)
            async with traffic.going_on():
                await demo.patch({"nodePools": [pool("data", 3)]})
                await demo.until(lambda seen: seen.is_done and seen.nodes == 3)
                assert await majority(demo) == (3, 2)

                await traffic.ask("PUT", "/books/_settings", {"index": {"number_of_replicas": 1}})
                await demo.patch({"config": {"search.max_buckets": 20_000}})
                await demo.until(lambda seen: seen.is_done and len(logbook.restarts) == 3)
                assert await majority(demo) == (3, 2)

                await demo.patch({"nodePools": [pool("data", 2)]})
                await demo.until(lambda seen: seen.is_done and seen.nodes == 2)
                assert await majority(demo) == (2, 2)

                # Of two, none may go before one is enough.
                await traffic.ask("PUT", "/books/_settings", {"index": {"number_of_replicas": 0}})
                await demo.patch({"nodePools": [pool("data", 1)]})
                await demo.until(lambda seen: seen.is_done and seen.nodes == 1)
                assert await majority(demo) == (1, 1)
            print(f"{traffic.story}\n{logbook.story}")
            assert await traffic.lost() == {}


async def majority(cluster: Cluster) -> tuple[int, int]:
    """How many masters there are, and how many have to see each other, as the cluster itself says."""
    nodes = await cluster.http("GET", "/_nodes?filter_path=nodes.*.roles")
    answer = await cluster.http("GET", "/_cluster/settings?flat_settings=true")
    said = {**answer["persistent"], **answer["transient"]}
    masters = [each for each in nodes["nodes"].values() if "master" in each["roles"]]
    if MINIMUM not in said:
        # It was never told otherwise than in the file that it was started with.
        [node] = (await cluster.http("GET", "/_nodes/_local/settings?flat_settings=true"))["nodes"].values()
        said = node["settings"]
    return len(masters), int(said[MINIMUM])
