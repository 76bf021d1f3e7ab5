"""Three nodes of a real Elasticsearch and their pilots: they form one cluster, give a node's data away when the founding document's own
manifest says so, take up a configuration, and a version."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest
import yaml
from tests.kit.kubectl import Kubectl, newest
from tests.kit.ordinary_user import ordinary_folder
from tests.kit.ours import PilothouseServer
from tests.kit.real_elastic import ANY_DISK, HEAP, PilotedNode, addresses, unpacked
from tests.kit.seeds import SEEDS
from tests.kit.waiting import eventually

from pilothouse.api.navigator.labels import CLUSTER_NAME
from pilothouse.api.nouns import ElasticsearchCluster, Lease, Namespace, Pilot
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.base.clock import SystemClock
from pilothouse.client.http import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.rest import Api

NAMES = ("es-demo-data-0", "es-demo-data-1", "es-demo-data-2")
SPACE = "logging"
DOCUMENTS = 300
SECONDS = 240.0
"""For a node that starts on a machine that has other things to do."""


class Fleet:
    """The cluster as a test deals with it."""

    def __init__(self, api: Api, kubectl: Kubectl, nodes: list[PilotedNode]) -> None:
        self.api = api
        self.kubectl = kubectl
        self.nodes = {node.name: node for node in nodes}

    async def pilot(self, name: str, is_so: Callable[[Object], bool]) -> Object:
        async def looked() -> Object | None:
            found = await self.api.get(Pilot, name, SPACE)
            return found if is_so(found) else None

        return await eventually(looked, seconds=SECONDS)

    async def facts(self, is_so: Callable[[Tree], bool]) -> Tree:
        """What the leading pilot reports, once it is so."""

        async def looked() -> Tree | None:
            lease = await self.api.find(Lease, "demo-leader", SPACE)
            holder = (
                str(lease.spec.get("holderIdentity") or "").partition("_")[0] if lease is not None else ""
            )
            if not holder:
                return None
            leader = await self.api.get(Pilot, holder, SPACE)
            found: Tree | None = leader.at("status", "elasticsearch", "cluster")
            return found if found and is_so(found) else None

        return await eventually(looked, seconds=SECONDS)

    async def edit(self, name: str, **spec: object) -> Object:
        return await self.api.patch(Pilot, name, SPACE, {"spec": spec})

    def count(self, through: str) -> int:
        self.nodes[through].ask("POST", "/books/_refresh")
        return int(self.nodes[through].ask("GET", "/books/_count")["count"])


@contextlib.asynccontextmanager
async def fleet(folder: Path, tmp_path: Path, version: str) -> AsyncIterator[Fleet]:
    home = await asyncio.to_thread(unpacked, version, folder)
    server = PilothouseServer(tmp_path / "server", "memory")
    nodes: list[PilotedNode] = []
    try:
        kubeconfig = folder / "kubeconfig"
        shutil.copy(server.target.kubeconfig, kubeconfig)
        kubeconfig.chmod(0o644)
        where = dict(zip(NAMES, addresses(len(NAMES)), strict=True))
        nodes = [
            PilotedNode(name, address, home, folder, kubeconfig, namespace=SPACE)
            for name, address in where.items()
        ]
        async with HttpTransport.open(load(kubeconfig), SystemClock(), agent="test") as transport:
            api = Api(transport, Random(1), manager="test")
            await api.create(Namespace, {"metadata": {"name": SPACE}})
            cluster = await api.create(ElasticsearchCluster, asked_for(version))
            for node in nodes:
                node.start()
                await api.create(Pilot, pilot_of(cluster, node.name, list(where.values())))
            yield Fleet(api, Kubectl(newest(), kubeconfig, tmp_path / "home"), nodes)
    finally:
        for node in nodes:
            if node.process is not None:
                # Nobody is left to answer: it need not be asked gently.
                node.process.popen.terminate()
        for node in nodes:
            if node.process is not None:
                node.process.popen.terminate()
                node.end()
        server.close()


def asked_for(version: str) -> Tree:
    pool = {"name": "data", "replicas": 3, "roles": ["data", "master"]}
    return {
        "apiVersion": ElasticsearchCluster.api_version,
        "kind": ElasticsearchCluster.kind,
        "metadata": {"name": "demo", "namespace": SPACE},
        "spec": {"version": version, "nodePools": [pool]},
    }


def pilot_of(cluster: Object, name: str, seeds: list[str]) -> Tree:
    settings = {
        **ANY_DISK,
        "cluster.name": "demo",
        "discovery.seed_hosts": seeds,
        "cluster.initial_master_nodes": list(NAMES),
    }
    return {
        "apiVersion": Pilot.api_version,
        "kind": Pilot.kind,
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "labels": {CLUSTER_NAME["ElasticsearchCluster"]: "demo"},
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": {
            "application": "elasticsearch",
            "configuration": {"settings": settings, "environment": {"ES_JAVA_OPTS": HEAP}},
            "elasticsearch": {"nodePool": "data", "roles": ["data", "master"]},
        },
    }


def is_as_in_the_seed(pilot: Object, seed: Tree) -> bool:
    """Whether its status has the plugins and the conditions of the manifest, but for the times and the message of what is left."""
    for told in seed["status"]["conditions"]:
        found = pilot.condition(told["type"]) or {}
        names = ("status", "reason", "message") if told["message"] else ("status", "reason")
        if any(found.get(name) != told[name] for name in names):
            return False
    plugins = pilot.at("status", "elasticsearch", "plugins", default=())
    found = [{"name": each["name"], "status": each["status"]} for each in plugins]
    return found == seed["status"]["elasticsearch"]["plugins"]


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_from_nothing_to_green_a_decommission_a_configuration_and_a_version(tmp_path: Path) -> None:
    with ordinary_folder() as folder:
        folder.chmod(0o755)
        async with fleet(folder, tmp_path, "7.17.29") as demo:
            formed = await demo.facts(
                lambda facts: (
                    facts.get("nodes") == 3 and facts.get("health") == "Green" and "clusterUUID" in facts
                )
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
                page = await asyncio.to_thread(demo.nodes[name].figures)
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
            (await demo.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifest))).ok()
            going = await demo.pilot(
                leaving, lambda pilot: pilot.is_true("Ready") and is_as_in_the_seed(pilot, manifest[0])
            )
            assert going.spec["decommission"] is True
            empty = await demo.pilot(leaving, lambda pilot: pilot.is_true("Decommissioned"))
            said = empty.condition("Decommissioned") or {}
            assert said["observedGeneration"] == empty.generation
            assert empty.at("status", "elasticsearch", "shards") == 0
            assert await asyncio.to_thread(demo.count, through) == DOCUMENTS

            # Taken back, with another configuration: it restarts in place, shards come again, and the cluster is whole after it.
            settings = {"settings": {"action.destructive_requires_name": True}}
            before = empty.at("status", "restarts")
            changed = await demo.edit(
                leaving, decommission=False, configuration=settings, elasticsearch={"plugins": []}
            )
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
            whole = await demo.facts(
                lambda facts: (
                    facts.get("health") == "Green"
                    and facts.get("settled") is True
                    and facts["members"].get(leaving) == started
                )
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
            await demo.facts(
                lambda facts: (
                    facts.get("health") == "Green"
                    and facts["members"].get(last) == newer.at("status", "lastStartedTime")
                )
            )
            assert await asyncio.to_thread(demo.count, through) == DOCUMENTS
