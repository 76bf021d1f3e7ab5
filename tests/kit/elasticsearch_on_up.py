"""A real Elasticsearch on `pilothouse up`, as its controllers run it: nothing but manifests go in.

    async with ElasticsearchOnUp.open(tmp_path, versions=("8.17.0",)) as installation:
        demo = await installation.cluster("demo", pools=[pool("data", 3)], version="8.17.0")
        await demo.until(lambda seen: seen.health == "Green")
        await demo.http("PUT", "/books")                          # by the address of its service
        await demo.patch({"nodePools": [pool("data", 2)]})
        installation.roles()["controller-manager"]                     # its process

All the while it is sampled that no cluster says it is available without a ready pod. What is waited for in vain fails with all that is known: conditions, pods, Pilots, and the end of each log. Where Java or a version is missing, the test is
skipped and says which script brings it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit import tools
from tests.kit.control_planes import UpPlane
from tests.kit.kubectl import Kubectl
from tests.kit.real_elasticsearch import ANY_DISK
from tests.kit.status_sampler import sampled

from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.kind_names import ElasticsearchCluster, Pilot, Pod, Service
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.transport import TransportError
from pilothouse.controllers.elasticsearch.status.volume_shortage import FULL, NEARLY_FULL
from pilothouse.meta.errors import StatusError
from pilothouse.node.containers.environment import PATH

SECONDS = 600.0
"""For what takes half a minute on a machine that has nothing else to do."""
HEAP = "256Mi"
QUICK = "-XX:TieredStopAtLevel=1"
"""For the virtual machine: a node that lives for minutes gains nothing from the compiler that takes its time."""
_PAUSE = 0.3
_TAIL = 25


def pool(name: str, replicas: int, *roles: str, heap: str = HEAP, **spec: Any) -> Tree:
    """A pool of nodes; of masters that hold data unless it is said otherwise."""
    return {
        "name": name,
        "replicas": replicas,
        "roles": list(roles or ("master", "data", "ingest")),
        "heapSize": heap,
        "persistence": {"size": "1Gi"},
        **spec,
    }


def is_sound(cluster: Object) -> bool:
    """Nothing is wrong with the cluster; how full the disk of this machine is has nothing to do with it."""
    degraded = cluster.condition("Degraded") or {}
    return degraded.get("status") == "False" or degraded.get("reason") in (NEARLY_FULL, FULL)


@dataclass(frozen=True)
class ObservedNode:
    """A cluster and its Pilots at one moment."""

    cluster: Object
    pilots: tuple[Object, ...]

    @property
    def health(self) -> str:
        return str(self.cluster.status.get("health") or "")

    @property
    def version(self) -> str:
        """The lowest that runs."""
        return str(self.cluster.status.get("version") or "")

    @property
    def ready(self) -> int:
        return int(self.cluster.status.get("readyReplicas") or 0)

    @property
    def nodes(self) -> int:
        return int(self.cluster.status.get("replicas") or 0)

    @property
    def is_current(self) -> bool:
        """The status is about the spec as it is."""
        return bool(self.cluster.status.get("observedGeneration") == self.cluster.generation)

    @property
    def is_done(self) -> bool:
        """Everything is as asked, all nodes are in, and the cluster is Green."""
        return (
            self.is_current
            and self.reason("Progressing") == "AsAsked"
            and self.health == "Green"
            and self.ready == self.nodes
        )

    @property
    def names(self) -> set[str]:
        """Of its Pilots."""
        return {each.name for each in self.pilots}

    def reason(self, condition: str) -> str:
        return str((self.cluster.condition(condition) or {}).get("reason") or "")

    def message(self, condition: str) -> str:
        return str((self.cluster.condition(condition) or {}).get("message") or "")

    def pilot(self, name: str) -> Object:
        [found] = [each for each in self.pilots if each.name == name]
        return found


class Cluster:
    """A cluster that was asked for."""

    def __init__(self, installation: ElasticsearchOnUp, name: str, namespace: str) -> None:
        self._installation = installation
        self._api = installation.api
        self.name = name
        self.namespace = namespace
        self._address = ""

    async def status(self) -> ObservedNode:
        cluster = await self._api.get(ElasticsearchCluster, self.name, self.namespace)
        return ObservedNode(cluster, tuple(await self.pilots()))

    async def pilots(self) -> list[Object]:
        return await self._owned(Pilot)

    async def pods(self) -> list[Object]:
        return await self._owned(Pod)

    async def _owned(self, noun: Any) -> list[Object]:
        selector = f"{ELASTICSEARCH.cluster_label}={self.name}"
        found = await self._api.list(noun, self.namespace, labels=selector)
        return sorted(found.objects, key=lambda each: each.name)

    async def patch(self, spec: Tree) -> Object:
        return await self._api.patch(ElasticsearchCluster, self.name, self.namespace, {"spec": spec})

    async def until(self, is_so: Callable[[ObservedNode], bool], *, seconds: float = SECONDS) -> ObservedNode:
        """What was seen when it was so. An API server that is away meanwhile is waited for."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                seen = await self.status()
                if is_so(seen):
                    return seen
            except (TransportError, StatusError):
                if time.monotonic() > deadline:
                    raise
            if time.monotonic() > deadline:
                raise AssertionError(f"not so after {seconds} s:\n{await self.story()}")
            await asyncio.sleep(_PAUSE)

    async def address(self) -> str:
        """Of its service."""
        if not self._address:
            service = await self._api.get(Service, f"es-{self.name}", self.namespace)
            self._address = f"{service.spec['clusterIP']}:9200"
        return self._address

    async def http(
        self, method: str, path: str, body: Any = None, *, seconds: float = 60, at: str = ""
    ) -> Any:
        """Ask the cluster by its service, or one node `at` its address; a list is sent line by line. Raises ``urllib.error.URLError``.

        A service hears of its pods a moment after us: a connection that is refused is tried again."""
        where = at or await self.address()
        deadline = time.monotonic() + seconds
        while True:
            try:
                return await asyncio.to_thread(_asked, method, f"http://{where}{path}", body, seconds)
            except urllib.error.URLError as problem:
                if not isinstance(problem.reason, ConnectionRefusedError) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_PAUSE)

    async def index(self, name: str, documents: int, *, shards: int = 1, replicas: int = 1) -> None:
        """An index with so many documents, each acknowledged."""
        settings = {"number_of_shards": shards, "number_of_replicas": replicas}
        await self.http("PUT", f"/{name}", {"settings": settings})
        lines = [
            line
            for number in range(documents)
            for line in ({"index": {"_id": str(number)}}, {"title": f"book {number}", "number": number})
        ]
        done = await self.http("POST", f"/{name}/_bulk?refresh=true", lines, seconds=240)
        assert not done["errors"], done

    async def count(self, name: str) -> int:
        await self.http("POST", f"/{name}/_refresh")
        return int((await self.http("GET", f"/{name}/_count"))["count"])

    async def story(self) -> str:
        """All that is known of it, for whoever has to find out what went wrong."""
        kubectl, place = self._installation.kubectl, ("-n", self.namespace)
        told = []
        for pod in await self.pods():
            told.append(f"--- {pod.name}")
            told.append((await kubectl("logs", pod.name, *place, f"--tail={_TAIL}")).out)
        told.append(self._installation.plane.output[-2000:])
        told.append((await kubectl("get", "events", *place, "--sort-by=.lastTimestamp")).out[-4000:])
        # Last what says most: a long output is cut from above.
        told.append((await kubectl("get", "esc,pilots,statefulsets,pods", *place, "-o", "wide")).out)
        conditions = "jsonpath={range .status.conditions[*]}{@}{'\\n'}"
        told.append((await kubectl("get", "esc", self.name, *place, "-o", conditions)).out)
        return "\n".join(told)


class ElasticsearchOnUp:
    """A control plane with this machine as its node, which has images of Elasticsearch."""

    def __init__(self, plane: UpPlane, api: Api) -> None:
        self.plane = plane
        self.api = api
        self.folder = plane.folder
        self.data = plane.data
        self.kubeconfig = plane.data / "admin.kubeconfig"
        self.kubectl: Kubectl = plane.kubectl

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, *flags: str, versions: Iterable[str] = ("8.17.0",)
    ) -> AsyncIterator[ElasticsearchOnUp]:
        """Brought up, with these versions; at the end nothing of it is left running. Skips the test where a version is missing."""
        archives = {version: archive(version) for version in versions}
        for version, file in archives.items():
            await asyncio.to_thread(_import, folder / "data", version, file)
        plane = UpPlane(folder, *flags)
        try:
            await asyncio.to_thread(plane.start)
            access = load(plane.data / "admin.kubeconfig")
            async with HttpTransport.open(access, SystemClock(), agent="test") as transport:
                api = Api(transport, Random(1), manager="test")
                async with sampled(api):
                    yield cls(plane, api)
        finally:
            # The databases need not be asked gently: nobody looks at them again.
            await asyncio.to_thread(plane.down)

    def roles(self) -> dict[str, int]:
        """The processes: ``apiserver``, ``controller-manager``, ``node``."""
        return {role["name"]: role["pid"] for role in self.plane.report["roles"]}

    async def cluster(
        self,
        name: str,
        *,
        pools: list[Tree],
        version: str = "8.17.0",
        namespace: str = "default",
        **spec: Any,
    ) -> Cluster:
        """Asked for; ``until`` waits for it."""
        if os.geteuid() == 0:
            spec.setdefault("securityContext", {"runAsUser": 1000})
        spec["config"] = {**ANY_DISK, **(spec.get("config") or {})}
        manifest = {
            "apiVersion": ElasticsearchCluster.api_version,
            "kind": ElasticsearchCluster.kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"version": version, "nodePools": pools, **spec},
        }
        (await self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))).ok()
        return Cluster(self, name, namespace)

    def known(self, name: str, namespace: str = "default") -> Cluster:
        """One that was asked for by other means."""
        return Cluster(self, name, namespace)


def archive(version: str) -> Path:
    """The file of a version; skips the test where it, or what it needs, is not on this machine."""
    found = tools.folder() / "elasticsearch" / f"elasticsearch-{version}.zip"
    if not found.exists():
        pytest.skip(
            f"Elasticsearch {version} could not be downloaded: scripts/tools/elasticsearch {version} brings it"
        )
    if shutil.which("java", path=PATH) is None:
        pytest.skip(f"there is no java for pods on {PATH}; Debian has it as openjdk-17-jre-headless")
    return found


def _import(data: Path, version: str, file: Path) -> None:
    words = [sys.executable, "-m", "pilothouse", "image", "import", f"elasticsearch:{version}", str(file)]
    done = subprocess.run(
        [*words, "--strip-components", "1", "--env", f"JDK_JAVA_OPTIONS={QUICK}", "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _asked(method: str, url: str, body: Any, seconds: float) -> Any:
    lines = "".join(json.dumps(each) + "\n" for each in body) if isinstance(body, list) else json.dumps(body)
    kind = "application/x-ndjson" if isinstance(body, list) else "application/json"
    request = urllib.request.Request(
        url,
        method=method,
        data=lines.encode() if body is not None else None,
        headers={"Content-Type": kind},
    )
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as refused:
        refused.msg = f"{refused.msg}: {refused.read()[:2000]!r}"
        raise
