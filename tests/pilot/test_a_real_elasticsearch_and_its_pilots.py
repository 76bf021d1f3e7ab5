"""Three nodes of a real Elasticsearch and their pilots: they form one cluster, give a node's data away when the founding document's own
manifest says so, take up a configuration, and a version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.kit.kubectl import Kubectl, newest
from tests.kit.ordinary_user import ordinary_folder
from tests.kit.pilots import SECONDS, Fleet, cluster_tree, piloted
from tests.kit.real_elasticsearch import PilotedNode, unpacked
from tests.kit.seeds import SEEDS
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Lease, Pilot
from pilothouse.api.objects import Object, Tree

NAMES = ("es-demo-data-0", "es-demo-data-1", "es-demo-data-2")
SPACE = "logging"
DOCUMENTS = 300


async def reported(fleet: Fleet, is_so: Callable[[Tree], bool]) -> Tree:
    """What the leading pilot reports, once it is so."""

    async def looked() -> Tree | None:
        lease = await fleet.api.find(Lease, "demo-leader", SPACE)
        holder = str(lease.spec.get("holderIdentity") or "").partition("_")[0] if lease is not None else ""
        if not holder:
            return None
        leader = await fleet.api.get(Pilot, holder, SPACE)
        found: Tree | None = leader.at("status", "elasticsearch", "cluster")
        return found if found and is_so(found) else None

    return await eventually(looked, seconds=SECONDS)


def count(node: PilotedNode) -> int:
    node.ask("POST", "/books/_refresh")
    return int(node.ask("GET", "/books/_count")["count"])


def is_as_in_the_seed(pilot: Object, seed: Tree) -> bool:
    """Whether its status has the plugins and the conditions of the manifest, but for the times and the message of what is left."""
    for told in seed["status"]["conditions"]:
        found = pilot.condition(told["type"]) or {}
        if told["type"] == "Decommissioned" and found.get("status") == "True":
            continue  # A small node may be empty before its restart for the plugin is over.
        names = ("status", "reason", "message") if told["message"] else ("status", "reason")
        if any(found.get(name) != told[name] for name in names):
            return False
    plugins = pilot.at("status", "elasticsearch", "plugins", default=())
    installed = [{"name": each["name"], "status": each["status"]} for each in plugins]
    return bool(installed == seed["status"]["elasticsearch"]["plugins"])


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_from_nothing_to_green_a_decommission_a_configuration_and_a_version(tmp_path: Path) -> None:
    with ordinary_folder() as folder:
        folder.chmod(0o755)
        home = await asyncio.to_thread(unpacked, "7.17.29", folder)
        asked_for = cluster_tree("demo", nodes=len(NAMES), version="7.17.29", namespace=SPACE)
        async with piloted(asked_for, NAMES, home, folder, tmp_path / "server") as demo:
            formed = await reported(
                demo,
                lambda facts: (
                    facts.get("nodes") == 3 and facts.get("health") == "Green" and "clusterUUID" in facts
                ),
            )
            uuid = formed["clusterUUID"]
            for name in NAMES:
                ready = await demo.pilot(name, lambda pilot: pilot.is_true("Ready"))
                assert ready.at("status", "elasticsearch", "version") == "7.17.29"

            leaving, through, last = NAMES
            asked = demo.nodes[through].ask
            await asyncio.to_thread(
                asked, "PUT", "/books", {"settings": {"number_of_shards": 3, "number_of_replicas": 1}}
            )
            lines = [
                line
                for n in range(DOCUMENTS)
                for line in ({"index": {"_id": str(n)}}, {"title": f"book {n}"})
            ]
            done = await asyncio.to_thread(asked, "POST", "/books/_bulk?refresh=true", lines)
            assert not done["errors"]
            await demo.pilot(
                leaving, lambda pilot: (pilot.at("status", "elasticsearch", "documents") or 0) > 0
            )

            # What Prometheus is told: each node of itself, and who leads of the whole.
            for name in NAMES:
                page = await asyncio.to_thread(demo.nodes[name].metrics)
                assert {"elasticsearch_indices_docs", "elasticsearch_node_shards_total"} <= page.names()
                assert page.value("elasticsearch_jvm_memory_max_bytes", area="heap", name=name) > 2e8
                assert page.value("elasticsearch_filesystem_data_available_bytes", name=name) > 0
                assert page.value("pilothouse_pilot_database_ready", pilot=name) == 1
                if page.value("pilothouse_pilot_leads"):
                    assert page.value("elasticsearch_cluster_health_number_of_nodes", cluster="demo") == 3
                    colors = page.values("elasticsearch_cluster_health_status", cluster="demo")
                    assert sum(colors) == 1

            # The manifest of the founding document: the node is emptied, and only then says so; nothing is lost on the way.
            manifest = next(seed for seed in SEEDS if seed.file == "pilot.yaml").mended()
            kubectl = Kubectl(newest(), demo.kubeconfig, tmp_path / "home")
            (await kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifest))).ok()
            going = await demo.pilot(
                leaving, lambda pilot: pilot.is_true("Ready") and is_as_in_the_seed(pilot, manifest[0])
            )
            assert going.spec["decommission"] is True
            empty = await demo.pilot(leaving, lambda pilot: pilot.is_true("Decommissioned"))
            said = empty.condition("Decommissioned") or {}
            assert said["observedGeneration"] == empty.generation
            assert empty.at("status", "elasticsearch", "shards") == 0
            assert await asyncio.to_thread(count, demo.nodes[through]) == DOCUMENTS

            # Taken back, with another configuration: it restarts in instance, shards come again, and the cluster is whole after it.
            settings = {"settings": {"action.destructive_requires_name": True}}
            before = empty.at("status", "restarts")
            edit = {"decommission": False, "configuration": settings, "elasticsearch": {"plugins": []}}
            changed = await demo.api.patch(Pilot, leaving, SPACE, {"spec": edit})
            restarted = await demo.pilot(
                leaving,
                lambda pilot: (
                    pilot.is_true("Ready")
                    and pilot.at("status", "configuration", "generation") == changed.generation
                    and pilot.at("status", "restarts") == before + 1
                    and (pilot.at("status", "elasticsearch", "shards") or 0) > 0
                ),
            )
            assert restarted.at("status", "lastExit", "clean") is True
            started = restarted.at("status", "lastStartedTime")
            whole = await reported(
                demo,
                lambda facts: (
                    facts.get("health") == "Green"
                    and facts.get("settled") is True
                    and facts["members"].get(leaving) == started
                ),
            )
            assert whole["clusterUUID"] == uuid

            # Another version: the pilot ends with its pod, and comes back with another image.
            node = demo.nodes[last]
            node.home = await asyncio.to_thread(unpacked, "8.17.0", folder)
            assert await asyncio.to_thread(node.end) == 0
            node.start()
            newer = await demo.pilot(
                last,
                lambda pilot: (
                    pilot.is_true("Ready") and pilot.at("status", "elasticsearch", "version") == "8.17.0"
                ),
            )
            assert newer.at("status", "version") == "8.17.0"
            await reported(
                demo,
                lambda facts: (
                    facts.get("health") == "Green"
                    and facts["members"].get(last) == newer.at("status", "lastStartedTime")
                ),
            )
            assert await asyncio.to_thread(count, demo.nodes[through]) == DOCUMENTS
