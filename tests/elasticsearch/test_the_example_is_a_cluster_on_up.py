"""`examples/elasticsearch.yaml` on `pilothouse up`: three masters and two data nodes of a real Elasticsearch, asked by the address of their service."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.harbour import Harbour, pool

EXAMPLE = Path(__file__).parents[2] / "examples" / "elasticsearch.yaml"
PILOTS = [
    f"es-demo-{name}-{number}" for name, count in (("master", 3), ("mixed", 2)) for number in range(count)
]


@pytest.mark.long
@pytest.mark.timeout(1500)
async def test_five_nodes_become_green_and_serve(tmp_path: Path) -> None:
    async with Harbour.open(tmp_path, versions=("8.17.0",)) as harbour:
        (await harbour.kubectl("apply", "-f", str(EXAMPLE))).ok()
        demo = harbour.known("demo")
        seen = await demo.until(lambda seen: seen.is_done and seen.ready == 5)
        assert sorted(seen.names) == PILOTS
        assert {each.at("status", "version") for each in seen.pilots} == {"8.17.0"}
        assert seen.reason("Degraded") == "AsAsked"

        # The table tells the story: who is asked for, how it is, who is there.
        told = (await harbour.kubectl("get", "esc,pilots")).ok()
        assert all(name in told for name in ("Green", *PILOTS))
        assert "demo" in harbour.plane.run("why", "esc", "demo").stdout

        # A document is written and found; and no master has taken any of it.
        await demo.index("books", 50, shards=2)
        found = await demo.http("GET", "/books/_search?q=title:book&size=0")
        assert found["hits"]["total"]["value"] == 50
        shards = await demo.http("GET", "/_cluster/state/routing_nodes,nodes")
        held = {
            shards["nodes"][node]["name"]: len(each)
            for node, each in shards["routing_nodes"]["nodes"].items()
        }
        assert {name for name, count in held.items() if count} == {"es-demo-mixed-0", "es-demo-mixed-1"}


@pytest.mark.timeout(600)
async def test_a_version_that_no_node_has_is_told_with_what_brings_it(tmp_path: Path) -> None:
    async with Harbour.open(tmp_path, versions=()) as harbour:
        lost = await harbour.cluster("lost", pools=[pool("data", 1)], version="8.17.1")
        seen = await lost.until(lambda seen: seen.reason("Degraded") == "ErrImageNeverPull")
        assert "pilothouse image import elasticsearch:8.17.1 FILE" in seen.message("Degraded")
        assert f"--data {harbour.data}" in seen.message("Degraded"), "it is typed as it stands"
        old = await harbour.cluster(
            "old",
            pools=[pool("data", 1)],
            pilotImage={"repository": "quay.io/jetstack/navigator-pilot-elasticsearch", "tag": "v0.1.0"},
        )
        seen = await old.until(lambda seen: seen.reason("Degraded") == "ErrImageNeverPull")
        assert "leave spec.pilotImage out" in seen.message("Degraded")

        ours = await harbour.cluster(
            "ours",
            pools=[pool("data", 1)],
            version="8.17.1",
            pilotImage={"repository": "host/pilothouse", "tag": "any"},
        )
        seen = await ours.until(lambda seen: seen.reason("Degraded") == "ErrImageNeverPull")
        assert "elasticsearch:8.17.1" in seen.message("Degraded")
        [pod] = await ours.pods()
        installed = pod.at("status", "initContainerStatuses")[0]["state"]["terminated"]
        assert installed["exitCode"] == 0, installed
