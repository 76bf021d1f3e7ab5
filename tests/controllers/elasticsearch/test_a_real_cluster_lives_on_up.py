"""A real Elasticsearch on `pilothouse up`, in short: three nodes come up, one is drained and goes, the others move up a version.

The voyages in tests/end_to_end tell the same at length.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.elasticsearch_on_up import Cluster, ElasticsearchOnUp, ObservedNode, pool
from tests.kit.status_history import StatusHistory
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import PersistentVolumeClaim

VERSION, NEXT = "7.17.29", "8.17.0"
DOCUMENTS = 300
LAST = "es-test-mixed-2"


@pytest.fixture
async def installation(tmp_path: Path) -> AsyncIterator[ElasticsearchOnUp]:
    async with ElasticsearchOnUp.open(tmp_path, versions=(VERSION, NEXT)) as installation:
        yield installation


def documents(seen: ObservedNode) -> int:
    return sum(each.at("status", "elasticsearch", "documents") or 0 for each in seen.pilots)


async def told_of(installation: ElasticsearchOnUp, reason: str) -> bool:
    """Whether there is such an event about the cluster; they are written when there is time."""
    words = ("get", "events", "--field-selector", f"involvedObject.name=test,reason={reason}", "-o", "name")
    return bool((await installation.kubectl(*words)).ok().strip())


async def books(test: Cluster) -> int:
    """How many a search finds, asked by the service's address."""
    found = await test.http("POST", "/books/_search?size=0", {"track_total_hits": True})
    return int(found["hits"]["total"]["value"])


async def voters(test: Cluster) -> list[str]:
    """Who elects a master."""
    state = await test.http("GET", "/_cluster/state/metadata,nodes")
    chosen = state["metadata"]["cluster_coordination"]["last_committed_config"]
    return sorted(state["nodes"][id]["name"] for id in chosen)


@pytest.mark.timeout(1500)
async def test_it_becomes_green_shrinks_and_moves_up_a_version_without_loss(
    installation: ElasticsearchOnUp,
) -> None:
    """nav-E04 to nav-E08, nav-E10 and nav-E11 with an index of our own."""
    test = await installation.cluster("test", pools=[pool("mixed", 3)], version=VERSION)
    seen = await test.until(lambda seen: seen.is_done and seen.ready == 3)
    assert seen.version == VERSION
    [header, row] = (await installation.kubectl("get", "esc")).rows()
    told = dict(zip(header, row, strict=True))
    assert (told["NAME"], told["HEALTH"], told["READY"], told["NODES"]) == ("test", "Green", "3", "3")
    await eventually(lambda: told_of(installation, "CreateNodePool"))
    assert [pod.at("status", "phase") for pod in await test.pods()] == ["Running"] * 3

    # What is in it is told by the Pilots; a copy too many can't be placed, and that is told as well.
    await test.index("books", DOCUMENTS, shards=3)
    await test.until(lambda seen: documents(seen) == 2 * DOCUMENTS)
    await test.http("PUT", "/books/_settings", {"number_of_replicas": 3})
    seen = await test.until(lambda seen: seen.health == "Yellow")
    assert seen.reason("Available") == "HealthYellow"
    # As Elasticsearch does it when a disk is nearly full.
    blocked = {"number_of_replicas": 1, "index.blocks.read_only_allow_delete": True}
    await test.http("PUT", "/books/_settings", blocked)
    seen = await test.until(lambda seen: seen.reason("Degraded") == "IndicesReadOnly")
    assert "1 index takes no writes (books)" in seen.message("Degraded")
    await test.http("PUT", "/books/_settings", {"index.blocks.read_only_allow_delete": None})
    seen = await test.until(lambda seen: seen.is_done and not seen.cluster.is_true("Degraded"))
    assert {each.at("status", "volume", "path") for each in seen.pilots} == {"/usr/share/elasticsearch/data"}
    assert seen.cluster.at("status", "fullestVolume", "capacityBytes") > 0

    # A node goes when it is empty, not before; its volume stays.
    async with StatusHistory.of(installation.kubeconfig, "test") as logbook:
        await test.patch({"nodePools": [pool("mixed", 2)]})
        await test.until(lambda seen: seen.is_done and seen.nodes == 2)
    assert logbook.emptied == {LAST: 0}
    assert {"Draining", "Shrinking"} <= logbook.turned_page()
    assert [pod.name for pod in await test.pods()] == ["es-test-mixed-0", "es-test-mixed-1"]
    assert await books(test) == DOCUMENTS
    await eventually(lambda: told_of(installation, "Decommission"))
    claims = await installation.api.list(PersistentVolumeClaim, "default")
    assert f"elasticsearch-data-{LAST}" in {claim.name for claim in claims.objects}

    # The highest first, and that one has the only vote: were it to keep it, it would come back alone, and shut the other out.
    votes = "/_cluster/voting_config_exclusions"
    await test.http("POST", f"{votes}?node_names=es-test-mixed-0")
    await test.http("DELETE", f"{votes}?wait_for_removal=false")
    assert await voters(test) == ["es-test-mixed-1"]
    await test.patch({"version": NEXT})
    seen = await test.until(lambda seen: NEXT in {each.status.get("version") for each in seen.pilots})
    assert seen.pilot("es-test-mixed-0").status.get("version") == VERSION
    seen = await test.until(lambda seen: seen.is_done and seen.version == NEXT)
    assert seen.nodes == 2
    assert await books(test) == DOCUMENTS
