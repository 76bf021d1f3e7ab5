"""Three nodes of a real Elasticsearch on three machines; one machine is cut off, with the pilot that leads on it, and comes back.

Meanwhile documents are written without a pause: by us to the machines that are left, and on the one that is cut off to its own node. Whatever was acknowledged
is there in the end; nothing is drained, moved or restarted for it; and the cluster says which node is away, and on which machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.plane import FleetNode, Plane, plane
from tests.kit.elasticsearch_harness import elastic, pool
from tests.kit.elasticsearch_on_up import QUICK, archive, is_sound
from tests.kit.file_limits import told_limit
from tests.kit.network_namespaces import missing
from tests.kit.real_elasticsearch import ANY_DISK
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ElasticsearchCluster, Lease, Pilot, Pod, StatefulSet, StorageClass
from pilothouse.api.objects import Object
from pilothouse.client.api import Api

pytestmark = [
    pytest.mark.long,
    pytest.mark.etcd,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

VERSION = "8.17.0"
SECONDS = 600.0
"""For what takes a minute on a machine that has nothing else to do."""
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
    }
]
CLUSTER = elastic(
    "demo",
    version=VERSION,
    pools=[
        pool(
            "data",
            3,
            "data",
            "ingest",
            "master",
            heapSize="256Mi",
            persistence={"size": "1Gi", "storageClass": "folders"},
            topologySpreadConstraints=SPREAD,
        )
    ],
    securityContext={"runAsUser": 1000},
    config=ANY_DISK,
)
FOLDERS = {
    "metadata": {"name": "folders"},
    "provisioner": "pilothouse.io/directory",
    "volumeBindingMode": "WaitForFirstConsumer",
}
QUICK_JAVA = {"JDK_JAVA_OPTIONS": QUICK}
_PUT = """
import json, sys, urllib.request
request = urllib.request.Request(sys.argv[1], method="PUT", data=b'{"title": "lost?"}')
request.add_header("Content-Type", "application/json")
print(urllib.request.urlopen(request, timeout=8).status)
"""


def asked(address: str, method: str, path: str, body: Any = None, *, seconds: float = 60) -> Any:
    """Of a node by its pod's address. Raises ``OSError``."""
    request = urllib.request.Request(
        f"http://{address}:9200{path}",
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        return json.loads(answer.read() or b"{}")


class Demo:
    """The cluster, as the test deals with it."""

    def __init__(self, fleet: Plane, api: Api) -> None:
        self.fleet = fleet
        self.api = api
        self.acknowledged: list[str] = []

    async def until(self, is_so: Callable[[Object], bool]) -> Object:
        deadline = time.monotonic() + SECONDS
        while True:
            found = await self.api.get(ElasticsearchCluster, "demo", "default", deadline=60)
            if is_so(found):
                return found
            assert time.monotonic() < deadline, await self.story(found)
            await asyncio.sleep(0.5)

    async def story(self, cluster: Object) -> str:
        """All that is known, for whoever has to find out what went wrong."""
        told = [json.dumps(cluster.thawed()["status"], indent=1)]
        for noun in (Pod, Pilot):
            for one in (await self.api.list(noun, "default")).objects:
                told.append(f"{noun.kind} {one.name}: {json.dumps(one.thawed().get('status'))[:2000]}")
        told += [node.process.output()[-1500:] for node in self.fleet.nodes if node.process is not None]
        return "\n".join(told)

    async def pods(self) -> dict[str, Object]:
        return {pod.name: pod for pod in (await self.api.list(Pod, "default")).objects}

    async def node_of(self, pod: Object) -> FleetNode:
        return next(node for node in self.fleet.nodes if node.name == pod.spec["nodeName"])

    async def standing(self) -> list[tuple[str, ...]]:
        """What must not change because a machine is away: sets, pods, and what the Pilots are told and have started."""
        sets = (await self.api.list(StatefulSet, "default")).objects
        pilots = (await self.api.list(Pilot, "default")).objects
        return [
            *((one.name, one.uid, str(one.spec["replicas"])) for one in sets),
            *((name, pod.uid, str(pod.deleting)) for name, pod in sorted((await self.pods()).items())),
            *((one.name, str(one.generation), str(one.status.get("restarts"))) for one in pilots),
        ]

    async def write(self, addresses: list[str]) -> None:
        """One document after the other, until cancelled; those that are acknowledged are remembered."""
        number = 0
        while True:
            number += 1
            path, where = f"/books/_doc/{number}", addresses[number % len(addresses)]
            with contextlib.suppress(OSError):
                await asyncio.to_thread(asked, where, "PUT", path, {"title": f"book {number}"})
                self.acknowledged.append(str(number))

    async def more(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        deadline = time.monotonic() + SECONDS
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {wanted} acknowledged"
            await asyncio.sleep(0.2)

    async def write_alone(self, node: FleetNode, address: str) -> None:
        """To the node that is cut off, on its own machine: most likely it can acknowledge nothing."""
        for number in range(6):
            name = f"alone-{number}"
            with contextlib.suppress(subprocess.CalledProcessError):
                words = (sys.executable, "-c", _PUT, f"http://{address}:9200/books/_doc/{name}")
                await asyncio.to_thread(node.machine.run, *words)
                self.acknowledged.append(name)

    async def lost(self, address: str) -> set[str]:
        """Those that were acknowledged and are not there."""
        await asyncio.to_thread(asked, address, "POST", "/books/_refresh")
        found = await asyncio.to_thread(asked, address, "POST", "/books/_mget", {"ids": self.acknowledged})
        return {each["_id"] for each in found["docs"] if not each.get("found")}


@contextlib.asynccontextmanager
async def sailing(folder: Path) -> AsyncIterator[Demo]:
    file = archive(VERSION)
    with (
        told_limit() as variables,
        plane(folder, *(f"--expose-path={each}" for each in variables.values())) as fleet,
    ):
        await asyncio.to_thread(furnish, fleet, file, variables)
        async with fleet.api() as api:
            await api.create(StorageClass, FOLDERS)
            await api.create(ElasticsearchCluster, CLUSTER)
            try:
                yield Demo(fleet, api)
            finally:
                for node in fleet.nodes:
                    node.machine.heal()
                await api.delete(ElasticsearchCluster, "demo", "default", propagation="Background")
                # Nobody looks at the databases again: they need not be asked gently.
                await api.delete_collection(Pod, "default", grace=1)

                async def gone() -> bool:
                    return not (await api.list(Pod, "default")).objects

                await eventually(gone, seconds=120)


def furnish(fleet: Plane, file: Path, variables: dict[str, str]) -> None:
    """Every machine has the image, and we a way to its pods."""
    for node in fleet.nodes:
        words = ["image", "import", f"elasticsearch:{VERSION}", str(file), "--strip-components", "1"]
        words += [f"--env={name}={value}" for name, value in {**variables, **QUICK_JAVA}.items()]
        argv = [sys.executable, "-m", "pilothouse", *words, "--data", str(node.data)]
        subprocess.run(argv, check=True, timeout=300, capture_output=True)
        # We have no agent that would do it for us.
        subprocess.run(["ip", "route", "add", node.range, "via", node.machine.address], check=True)


def is_whole(cluster: Object) -> bool:
    progressing = cluster.condition("Progressing") or {}
    return (
        cluster.status.get("health") == "Green"
        and cluster.status.get("readyReplicas") == 3
        and progressing.get("reason") == "AsAsked"
        and is_sound(cluster)
    )


async def test_a_machine_goes_away_and_comes_back_and_no_acknowledged_document_is_lost(
    tmp_path: Path,
) -> None:
    async with sailing(tmp_path) as demo:
        whole = await demo.until(is_whole)
        pods = await demo.pods()
        assert sorted(pod.spec["nodeName"] for pod in pods.values()) == ["m1", "m2", "m3"]
        lease = await demo.api.get(Lease, "demo-leader", "default")
        away = pods.pop(lease.spec["holderIdentity"].partition("_")[0])
        machine = await demo.node_of(away)
        left = [pod.status["podIP"] for pod in pods.values()]
        settings = {"settings": {"number_of_shards": 3, "number_of_replicas": 1}}
        await asyncio.to_thread(asked, left[0], "PUT", "/books", settings)

        async def built() -> bool:
            found = await asyncio.to_thread(asked, left[0], "GET", "/_cluster/health/books")
            return bool(found["status"] == "green")

        # A copy that is not built yet when its primary goes away can't take its place.
        await eventually(built, seconds=SECONDS)
        await demo.until(is_whole)
        before = await demo.standing()
        writing = asyncio.create_task(demo.write(left))
        try:
            await demo.more(50)
            machine.machine.cut_off()
            alone = asyncio.create_task(demo.write_alone(machine, away.status["podIP"]))

            def is_told(cluster: Object) -> bool:
                said = cluster.condition("Degraded") or {}
                named = away.name in said["message"] and machine.name in said["message"]
                return said["status"] == "True" and named and cluster.status.get("health") == "Yellow"

            degraded = await demo.until(is_told)
            said = degraded.condition("Degraded") or {}
            assert said["reason"] in ("NodeNotReady", "PilotSilent")
            assert degraded.is_true("Available")
            # Both signs have come: of the machine, and of the pilot on it.
            await demo.until(lambda cluster: cluster.status.get("readyReplicas") == 2)
            await demo.more(50)
            await alone
            assert [each[:2] for each in await demo.standing()] == [each[:2] for each in before]
            machine.machine.heal()
            healed = await demo.until(is_whole)
            await demo.more(50)
        finally:
            writing.cancel()
        assert healed.status["clusterUUID"] == whole.status["clusterUUID"]
        assert await demo.standing() == before
        assert await demo.lost(left[0]) == set()
