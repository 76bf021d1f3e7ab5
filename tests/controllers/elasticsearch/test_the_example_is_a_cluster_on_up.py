"""`examples/elasticsearch.yaml` on `pilothouse up`, by the quick start's own commands: three masters and two data nodes of a real Elasticsearch, asked by the
address of their service. Then the commands of the page about Elasticsearch, as they stand there."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.docs_commands import QUICK_START, ROOT, typed
from tests.kit.elastic_archives import BUNDLED_JAVA, ordinary_archive
from tests.kit.elasticsearch_on_up import ElasticsearchOnUp, archive, pool
from tests.kit.real_elasticsearch import ANY_DISK

PATIENT = 'curl() { command curl --retry 30 --retry-connrefused --retry-delay 1 --no-progress-meter "$@"; }'
"""A service hears of its pods a moment after the cluster does."""
ELASTIC_PAGE = ROOT / "docs" / "elasticsearch.md"
ORDINARY = "elasticsearch-8.17.0-linux-x86_64.tar.gz"
PAGE_SURROUNDINGS = """
curl() {
  case "$*" in
    *https://artifacts.elastic.co/*) cp "downloads/$(basename "${@: -1}")" . ;;
    *) command curl --retry 30 --retry-connrefused --retry-delay 1 --no-progress-meter "$@" ;;
  esac
}
pilothouse() {
  case "$1" in
    image) command pilothouse "$@" --data "$PILOTHOUSE_DATA" ;;
    *) command pilothouse "$@" ;;
  esac
}
"""
"""What can't be downloaded here is at hand, and images go to the node of this test."""
STAYING = ["es-demo-master-0", "es-demo-master-1", "es-demo-master-2", "es-demo-mixed-0"]


def commands() -> list[str]:
    """Those of the quick start's part about Elasticsearch."""
    page = QUICK_START.read_text()
    part = page.partition("## Run an Elasticsearch cluster\n")[2].partition("\n## ")[0]
    return re.findall(r"^    \$ (.+)$", part, re.M)


def with_any_disk(commands: list[str]) -> list[str]:
    """The same, on a machine whose disk may be nearly full: Elasticsearch would move no shard to a node on it."""
    settings = json.dumps({"persistent": ANY_DISK})
    ask = f"curl -X PUT \"$es/_cluster/settings\" -H 'Content-Type: application/json' -d '{settings}'"
    [at] = [index for index, command in enumerate(commands) if command.startswith("es=")]
    return [*commands[: at + 1], ask, *commands[at + 1 :]]


def page_commands() -> list[str]:
    """Those of the page about Elasticsearch, all of them."""
    return re.findall(r"^\$ (.+)$", ELASTIC_PAGE.read_text(), re.M)


def page_folder(folder: Path) -> Path:
    """Where they are typed: a checkout in which files can be left, with Elastic's archive beside it."""
    (folder / "downloads").mkdir(parents=True)
    for name in ("examples", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    ordinary_archive(archive("8.17.0"), folder / "downloads" / ORDINARY)
    return folder


@needs_root
@pytest.mark.long
@pytest.mark.timeout(1500)
async def test_the_quick_start_brings_up_five_nodes_and_the_page_about_them_is_true(tmp_path: Path) -> None:
    assert len(commands()) >= 10
    archive("8.17.0")
    async with ElasticsearchOnUp.open(tmp_path, versions=()) as installation:
        script = "\n".join([PATIENT, *with_any_disk(commands())])
        done = await asyncio.to_thread(typed, script, installation.data, seconds=1200)
        demo = installation.known("demo")
        assert done.returncode == 0, f"{done.stderr}\n{await demo.story()}"
        seen = await demo.until(lambda seen: seen.reason("Progressing") == "AsAsked" and seen.ready == 4)
        assert {each.name for each in await demo.pods()} == set(STAYING)
        assert {each.at("status", "version") for each in seen.pilots} == {"8.17.0"}

        # The table tells the story: who is asked for, how it is, who is there; and the search has found what was written.
        assert all(name in done.stdout for name in ("Green", *STAYING))
        assert '"_source":{"title": "The Voyage Out"}' in done.stdout
        assert "demo" in installation.plane.run("why", "esc", "demo").stdout

        # No master has taken any of it.
        shards = await demo.http("GET", "/_cluster/state/routing_nodes,nodes")
        held = {shards["nodes"][id]["name"] for id, each in shards["routing_nodes"]["nodes"].items() if each}
        assert held == {"es-demo-mixed-0"}

        await the_page_is_true(installation, tmp_path / "page")


async def the_page_is_true(installation: ElasticsearchOnUp, folder: Path) -> None:
    """The commands of docs/elasticsearch.md succeed, and show what the page shows of them."""
    assert len(page_commands()) >= 15
    assert f"image import elasticsearch:8.17.0 {ORDINARY}" in "\n".join(page_commands())
    await asyncio.to_thread(page_folder, folder)
    script = "\n".join([f"cd {folder}", PAGE_SURROUNDINGS, *page_commands()])
    done = await asyncio.to_thread(typed, script, installation.data, seconds=600)
    safe = installation.known("safe")
    assert done.returncode == 0, f"{done.stderr}\n{await safe.story()}"
    assert "405\n405\n" in done.stdout, "no page at /, and nothing that indexes anew"
    assert f"{ORDINARY}: OK" in done.stdout
    assert '"cluster_name" : "safe"' in done.stdout

    # The cluster that was made after the import runs what was imported, with the Java in it.
    log = await installation.kubectl("logs", "es-safe-all-0", "-c", "elasticsearch")
    assert BUNDLED_JAVA in log.ok()


@pytest.mark.timeout(600)
async def test_a_version_that_no_node_has_is_told_with_what_brings_it(tmp_path: Path) -> None:
    async with ElasticsearchOnUp.open(tmp_path, versions=()) as installation:
        lost = await installation.cluster("lost", pools=[pool("data", 1)], version="8.17.1")
        seen = await lost.until(lambda seen: seen.reason("Degraded") == "ErrImageNeverPull")
        assert "pilothouse image import elasticsearch:8.17.1 FILE" in seen.message("Degraded")
        assert f"--data {installation.data}" in seen.message("Degraded"), "it is typed as it stands"
        old = await installation.cluster(
            "old",
            pools=[pool("data", 1)],
            pilotImage={"repository": "quay.io/jetstack/navigator-pilot-elasticsearch", "tag": "v0.1.0"},
        )
        seen = await old.until(lambda seen: seen.reason("Degraded") == "ErrImageNeverPull")
        assert "pilothouse image import" in seen.message("Degraded"), (
            "any pilot's image is here, the database's is not"
        )

        ours = await installation.cluster(
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
