"""A real Elasticsearch whose volume fills up, grows, and which then gets a setting that it does not know: its status says each, and what helps does help."""

from __future__ import annotations

import os
import urllib.error
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.elasticsearch_on_up import Cluster, ElasticsearchOnUp, ObservedNode, pool
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Pod

pytestmark = pytest.mark.long

CLAIM = "elasticsearch-data-es-test-data-0"
NODE = "es-test-data-0"
FOLDER = "/usr/share/elasticsearch/data"
WORDS = "unknown setting [cluster.nmae] did you mean [cluster.name]?"
WATCHED = {
    "cluster.routing.allocation.disk.threshold_enabled": True,
    "cluster.info.update.interval": "10s",
}


@pytest.fixture
async def installation(tmp_path: Path) -> AsyncIterator[ElasticsearchOnUp]:
    if os.geteuid() != 0:
        pytest.skip("it mounts a filesystem or becomes another user, which only root may")
    async with ElasticsearchOnUp.open(tmp_path) as installation:
        yield installation


def data(size: str) -> dict[str, object]:
    return pool("data", 1, persistence={"size": size, "storageClass": "loop"})


async def is_taken(test: Cluster) -> bool:
    """Whether a document is."""
    try:
        await test.http("POST", "/books/_doc", {"title": "one more"}, seconds=20)
    except urllib.error.HTTPError as refused:
        if refused.code not in (403, 429):
            raise
        return False
    return True


def volume_of(seen: ObservedNode) -> int:
    return int(seen.cluster.at("status", "fullestVolume", "usedPercent") or 0)


@pytest.mark.timeout(1500)
async def test_each_is_degraded_with_its_cause_and_what_helps(installation: ElasticsearchOnUp) -> None:
    test = await installation.cluster("test", pools=[data("400Mi")], config=WATCHED)
    # While it starts it is starting, and nobody is told of connections that are refused.
    seen = await test.until(lambda seen: "is starting" in seen.message("Progressing"))
    assert "refused" not in seen.message("Progressing")
    seen = await test.until(lambda seen: seen.is_done and volume_of(seen) > 0)
    assert seen.cluster.status["fullestVolume"]["name"] == CLAIM
    assert volume_of(seen) < 50
    await test.index("books", 10, replicas=0)
    assert await is_taken(test)

    (
        await installation.kubectl(
            "exec", NODE, "--", "sh", "-c", f"head -c 320000000 /dev/zero > {FOLDER}/filler"
        )
    ).ok()
    seen = await test.until(lambda seen: seen.reason("Degraded") == "IndicesReadOnly")
    assert seen.cluster.is_true("Degraded")
    assert seen.message("Degraded").startswith("1 index takes no writes (books)")
    assert f"volume {CLAIM} is full to 9" in seen.message("Degraded")
    assert "raise persistence.size of pool data" in seen.message("Degraded")
    assert seen.message("Progressing") != "Everything is as specified."
    assert volume_of(seen) >= 95
    assert seen.pilot(NODE).is_true("Degraded")
    assert not await is_taken(test)

    # What it advises helps, without anything else.
    await test.patch({"nodePools": [data("4Gi")]})
    await test.until(
        lambda seen: seen.is_done and not seen.cluster.is_true("Degraded") and volume_of(seen) < 50
    )
    assert await is_taken(test)

    await test.patch({"config": {"cluster.nmae": "books"}})
    seen = await test.until(lambda seen: seen.reason("Degraded") == "DatabaseEnded")
    assert f"{NODE} does not start: it ended with code 1: " in seen.message("Degraded")
    assert WORDS in seen.message("Degraded")
    assert WORDS in seen.pilot(NODE).status["lastExit"]["message"]

    async def last_words() -> str:
        pod = await installation.api.get(Pod, NODE, "default")
        status = pod.status["containerStatuses"][0]
        ends = [(status.get(each) or {}).get("terminated") or {} for each in ("state", "lastState")]
        return next((each["message"] for each in ends if each.get("message")), "")

    assert WORDS in await eventually(last_words)
    await test.patch({"config": {"cluster.nmae": None}})
    seen = await test.until(lambda seen: seen.is_done)
    assert not seen.cluster.is_true("Degraded")
    assert await is_taken(test)
