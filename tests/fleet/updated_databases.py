"""Three machines with update agents and a node of Elasticsearch on each, below one API server and one controller-manager.

    with updated_databases(folder) as fleet:
        async with fleet.api() as api:
            await fleet.until(fleet.cluster, is_whole, api)
            await fleet.run_plan(api, "v2.0.0", gates=[…])
        fleet.versions()                                   # what the programs of the machines report

    async with fleet.watched(): …                          # fails if two nodes are down at once
    async with fleet.written() as documents: …             # fails if an acknowledged document is lost

The API server has SQLite: what is tested here does not depend on the store, and the machine has other things to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import platform
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from tests.fleet.plane import FleetNode, end_all
from tests.kit import managers
from tests.kit.elasticsearch_harness import elastic, pool
from tests.kit.elasticsearch_on_up import QUICK, archive, is_sound
from tests.kit.file_limits import told_limit
from tests.kit.kubectl import Kubectl, newest
from tests.kit.managed_programs import program
from tests.kit.network_namespaces import Lan, machines
from tests.kit.payload_server import PayloadFile, PayloadServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process
from tests.kit.real_elasticsearch import ANY_DISK
from tests.kit.update_fleet import stop_program

from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import ElasticsearchCluster, Node, Plan, Pod, StorageClass
from pilothouse.api.objects import Object, Tree
from pilothouse.base.architectures import go_architecture
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

VERSION = "8.17.0"
FIRST = "v1.0.0"
SECONDS = 300.0
"""For what takes half a minute on a machine that has nothing else to do."""
_NODES = 3
_PORT = "8700"
_PLATFORM = f"linux-{go_architecture(platform.machine())}"
_SPREAD = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
_FOLDERS = {
    "metadata": {"name": "folders"},
    "provisioner": "pilothouse.io/directory",
    "volumeBindingMode": "WaitForFirstConsumer",
}
_CLUSTER = elastic(
    "demo",
    version=VERSION,
    pools=[
        pool(
            "data",
            _NODES,
            "data",
            "ingest",
            "master",
            heapSize="256Mi",
            persistence={"size": "1Gi", "storageClass": "folders"},
            topologySpreadConstraints=[_SPREAD],
        )
    ],
    securityContext={"runAsUser": 1000},
    config=ANY_DISK,
)


def is_whole(cluster: Object) -> bool:
    """Everything is as asked, all nodes are in, and the cluster is Green."""
    return (
        cluster.status.get("observedGeneration") == cluster.generation
        and cluster.status.get("health") == "Green"
        and cluster.status.get("readyReplicas") == _NODES
        and (cluster.condition("Progressing") or {}).get("reason") == "AsAsked"
        and is_sound(cluster)
    )


def has_ended(plan: Object) -> bool:
    return plan.status.get("completedTime") is not None


def targets(plan: Object) -> dict[str, Tree]:
    found = plan.status.get("commands") or [{}]
    return {each["name"]: each for each in found[0].get("k0supdate", {}).get("workers", ())}


class UpdatedDatabases:
    """What was started."""

    def __init__(self, folder: Path, lan: Lan, server: PilothouseServer, payloads: PayloadServer) -> None:
        self.lan = lan
        self.server = server
        self.payloads = payloads
        self.kubectl = Kubectl(newest(), server.target.kubeconfig, folder / "kubectl")
        self.nodes = [
            FleetNode(machine, f"10.44.{number}.0/24", folder / machine.name / "data")
            for number, machine in enumerate(lan, start=1)
        ]
        self.manager: Process | None = None

    @contextlib.asynccontextmanager
    async def api(self) -> AsyncIterator[Api]:
        """As an administrator."""
        access = load(self.server.target.kubeconfig)
        async with HttpTransport.open(access, SystemClock(), agent="pilothouse-test") as transport:
            yield Api(transport, Random(1), manager="test")

    async def cluster(self, api: Api) -> Object:
        return await api.get(ElasticsearchCluster, "demo", "default", deadline=60)

    async def plan(self, api: Api) -> Object:
        return await api.get(Plan, RUNNING_PLAN, deadline=60)

    async def until(
        self, look: Callable[[Api], Awaitable[Object]], holds: Callable[[Object], bool], api: Api
    ) -> Object:
        """The object, once this holds."""
        deadline = time.monotonic() + SECONDS
        while True:
            found = await look(api)
            if holds(found):
                return found
            assert time.monotonic() < deadline, await self.story(found, api)
            await asyncio.sleep(0.3)

    async def story(self, found: Object, api: Api) -> str:
        """All that is known, to find out what went wrong."""
        lines = [f"{found.kind} {found.name}: {json.dumps(found.thawed()['status'], indent=1)}"]
        others = (await self.cluster(api), *(await api.list(Pod, "default")).objects)
        lines += [f"{one.kind} {one.name}: {json.dumps(one.thawed().get('status'))[:2000]}" for one in others]
        lines += [node.process.output()[-1000:] for node in self.nodes if node.process is not None]
        return "\n".join([*lines, self.manager.output()[-2000:] if self.manager is not None else ""])

    async def run_plan(self, api: Api, version: str, **rollout: Any) -> None:
        """Replace the plan by one that brings this version to every machine, one at a time."""
        if await api.find(Plan, RUNNING_PLAN) is not None:
            await api.delete(Plan, RUNNING_PLAN)
        self.payloads.files[f"/{version}"] = PayloadFile(program(version))
        update = {
            "version": version,
            "platforms": {_PLATFORM: {"url": self.payloads.url(f"/{version}")}},
            "targets": {"workers": {"discovery": {"selector": {}}, "limits": {"concurrent": 1}}},
        }
        spec = {"id": version, "commands": [{"k0supdate": update}], "rollout": rollout}
        kind = {"apiVersion": Plan.api_version, "kind": Plan.kind}
        await api.create(Plan, {**kind, "metadata": {"name": RUNNING_PLAN}, "spec": spec})

    async def pause(self, api: Api, paused: bool) -> None:
        await api.patch(Plan, RUNNING_PLAN, "", {"spec": {"rollout": {"paused": paused}}})

    def versions(self) -> list[str]:
        """What the program of each machine reports."""
        program = [str(self.nodes[0].data.parent / "program"), "ask", _PORT]
        return [node.machine.run(*program).strip() for node in self.nodes]

    async def addresses(self, api: Api) -> list[str]:
        """Where the nodes of the cluster listen that have an address."""
        pods = (await api.list(Pod, "default")).objects
        return [pod.status["podIP"] for pod in pods if pod.status.get("podIP") and not pod.deleting]

    async def ask(self, api: Api, method: str, path: str, body: Any = None) -> Any:
        """The first node that answers. Raises ``OSError``."""
        problem: OSError = ConnectionRefusedError("there is no node")
        for address in await self.addresses(api):
            try:
                return await asyncio.to_thread(asked, address, method, path, body)
            except OSError as failure:
                problem = failure
        raise problem

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[list[str]]:
        """Look at pods and databases all the time. Fails at the end if two nodes were down at once."""
        seen: list[str] = []
        async with self.api() as api:
            task = asyncio.create_task(self._watch(api, seen))
            try:
                yield seen
            finally:
                task.cancel()
                [ended] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended
        violations = [each for each in seen if each.startswith("two down")]
        assert not violations, "\n".join(violations[:5])

    async def _watch(self, api: Api, seen: list[str]) -> None:
        while True:
            down, what = await self._down(api)
            if down > 1:
                # Pods and databases are looked at one after the other: one may have come back before the next one went.
                # No database starts as quickly as one can look again.
                down, what = await self._down(api)
            if down:
                seen.append(f"two down: {what}" if down > 1 else "one down")
            await asyncio.sleep(0.2)

    async def _down(self, api: Api) -> tuple[int, str]:
        """How many nodes are down: their databases don't run, or are no members."""
        pods = {pod.name: pod for pod in (await api.list(Pod, "default")).objects}
        names = [f"es-demo-data-{number}" for number in range(_NODES)]
        looks = [asyncio.to_thread(_members, pods[name]) if name in pods else _nothing() for name in names]
        counts = dict(zip(names, await asyncio.gather(*looks), strict=True))
        stopped = [name for name, count in counts.items() if count is None]
        # One that has just started, or is about to stop, may not know of the others.
        most = max((count for count in counts.values() if count), default=_NODES)
        return max(len(stopped), _NODES - most), f"{stopped} do not run, and {most} are members"

    @contextlib.asynccontextmanager
    async def written(self) -> AsyncIterator[list[str]]:
        """Write document after document. Fails at the end if one is lost that was acknowledged."""
        acknowledged: list[str] = []
        async with self.api() as api:
            index = {"settings": {"number_of_shards": 3, "number_of_replicas": 1}}
            await self.ask(api, "PUT", "/books", index)
            await self.until(self.cluster, is_whole, api)
            task = asyncio.create_task(self._write(api, acknowledged))
            try:
                yield acknowledged
            finally:
                task.cancel()
                [ended] = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError), ended
            await self.ask(api, "POST", "/books/_refresh")
            found = await self.ask(api, "POST", "/books/_mget", {"ids": acknowledged})
            await self.ask(api, "DELETE", "/books")
        lost = {each["_id"] for each in found["docs"] if not each.get("found")}
        assert not lost, f"{len(lost)} of {len(acknowledged)} documents are lost"

    async def _write(self, api: Api, acknowledged: list[str]) -> None:
        for number in itertools.count():
            if number % 10 == 0:
                addresses = await self.addresses(api)
            with contextlib.suppress(OSError):
                path, address = f"/books/_doc/{number}", addresses[number % len(addresses)]
                await asyncio.to_thread(asked, address, "PUT", path, {"number": number}, seconds=5)
                acknowledged.append(str(number))
            await asyncio.sleep(0.05)


def asked(address: str, method: str, path: str, body: Any = None, *, seconds: float = 30) -> Any:
    """Ask one node of the database. Raises ``OSError``."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(
        f"http://{address}:9200{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        return json.loads(answer.read() or b"{}")


def _members(pod: Object) -> int | None:
    """How many nodes the database has, as the one in this pod knows it; 0 if it does not know, None if it does not run."""
    address = pod.status.get("podIP")
    if not address:
        return None
    try:
        health = asked(address, "GET", "/_cluster/health?local=true&timeout=1s", seconds=5)
    except urllib.error.HTTPError:
        return 0
    except urllib.error.URLError as problem:
        return 0 if isinstance(problem.reason, TimeoutError) else None
    except (OSError, ValueError):
        # It was there when the question came.
        return 0
    return int(health["number_of_nodes"])


async def _nothing() -> None:
    return None


@contextlib.contextmanager
def updated_databases(folder: Path) -> Iterator[UpdatedDatabases]:
    """All of it; the cluster is created, but may not have formed yet."""
    file = archive(VERSION)
    with machines(_NODES) as lan, contextlib.ExitStack() as ending:
        variables = ending.enter_context(told_limit())
        server = PilothouseServer(folder / "server", "sqlite", host=lan.address)
        ending.callback(server.close)
        payloads = ending.enter_context(PayloadServer.running(host=lan.address))
        fleet = UpdatedDatabases(folder, lan, server, payloads)
        fleet.manager = managers.started(server.target.kubeconfig, folder / "manager", "--no-leader-elect")
        ending.callback(fleet.manager.end)
        for node in fleet.nodes:
            # After its agent, which would start it again.
            ending.callback(_stop_program, node)
        ending.callback(end_all, fleet.nodes)
        with ThreadPoolExecutor() as threads:
            list(
                threads.map(
                    lambda node: _furnish(node, server.target.kubeconfig, file, variables), fleet.nodes
                )
            )
        for node in fleet.nodes:
            flags = ["--stop-pods", "--update-profile", str(_profile(node))]
            node.start(*flags, *(f"--expose-path={each}" for each in variables.values()))
        asyncio.run(_create(fleet))
        ending.callback(lambda: asyncio.run(_delete(fleet)))
        yield fleet


def _furnish(node: FleetNode, kubeconfig: Path, file: Path, variables: dict[str, str]) -> None:
    """Let a machine join and give it the image, and us a route to its pods."""
    node.join(kubeconfig)
    words = ["image", "import", f"elasticsearch:{VERSION}", str(file), "--strip-components", "1"]
    words += [f"--env={name}={value}" for name, value in {**variables, "JDK_JAVA_OPTIONS": QUICK}.items()]
    argv = [sys.executable, "-m", "pilothouse", *words, "--data", str(node.data)]
    subprocess.run(argv, check=True, timeout=300, capture_output=True)
    subprocess.run(["ip", "route", "add", node.range, "via", node.machine.address], check=True)


def _profile(node: FleetNode) -> Path:
    path = node.data.parent / "program"
    path.write_bytes(program(FIRST))
    path.chmod(0o755)
    profile = {
        "path": str(path),
        "version": ["{path}", "ask", _PORT],
        "health": f"http://127.0.0.1:{_PORT}/readyz",
        "run": ["{path}", "serve", _PORT],
        "healthFor": "100ms",
        "healthWithin": "30s",
        "stopGrace": "5s",
    }
    file = node.data.parent / "profile.yaml"
    file.write_text(json.dumps(profile))
    return file


def _stop_program(node: FleetNode) -> None:
    asyncio.run(stop_program(node.data))


async def _create(fleet: UpdatedDatabases) -> None:
    """A node on each machine: those that are not Ready would get none."""
    async with fleet.api() as api:
        deadline = time.monotonic() + SECONDS
        while sum(node.is_true("Ready") for node in (await api.list(Node)).objects) < _NODES:
            assert time.monotonic() < deadline, "the machines do not get Ready"
            await asyncio.sleep(0.2)
        await api.create(StorageClass, _FOLDERS)
        await api.create(ElasticsearchCluster, _CLUSTER)


async def _delete(fleet: UpdatedDatabases) -> None:
    """The databases need no time to stop: no test looks at them again."""
    async with fleet.api() as api:
        await api.delete(ElasticsearchCluster, "demo", "default", propagation="Background")
        await api.delete_collection(Pod, "default", grace=1)
        deadline = time.monotonic() + 120
        while (await api.list(Pod, "default")).objects:
            assert time.monotonic() < deadline, "the pods do not end"
            await asyncio.sleep(0.2)
