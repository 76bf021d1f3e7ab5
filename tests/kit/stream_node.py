"""A node that only serves: its pods are containers that a test starts by hand, its API server is a real one.

    async with StreamNode.serving(plane, tmp_path) as node:
        await node.start("web", "echo hello; sleep 1000")
        (await kubectl("logs", "web")).ok()

What a node does besides (following pods, probes, volumes) is tested elsewhere. Here are the ways from kubectl through the API
server to a process and back.
"""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit import managers
from tests.kit.pilothouse_server import PilothouseServer

from pilothouse.api.kind_names import Node, Pod
from pilothouse.base.clock import SystemClock
from pilothouse.client import kubeconfig
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.node.containers.container_index import LOG, ContainerIndex, InstanceSource
from pilothouse.node.server.caller_authorization import CallerAuthorizer
from pilothouse.node.server.container_programs import ContainerPrograms
from pilothouse.node.server.exec_sessions import ExecSessions
from pilothouse.node.server.http_server import MOST_STREAMS, ServerBackends, listening, serving
from pilothouse.node.server.pod_pages import PodPages
from pilothouse.node.server.serving_certificate import ServingCertificate
from pilothouse.supervise import containers
from pilothouse.supervise.containers import Container
from pilothouse.supervise.launch_spec import LaunchSpec, LogPolicy

NAME = "n1"
SPACE = "default"


@dataclass(frozen=True)
class Plane:
    """An API server with our controllers, and where its node's kubeconfig lies."""

    server: PilothouseServer
    node_kubeconfig: Path


@contextlib.contextmanager
def plane(folder: Path) -> Iterator[Plane]:
    """A control plane without a node."""
    server = PilothouseServer(folder, "memory", flags=("--local-node", NAME))
    try:
        manager = managers.started(
            folder / "data" / "controller-manager.kubeconfig", folder, "--no-leader-elect"
        )
        try:
            yield Plane(server, folder / "data" / "node.kubeconfig")
        finally:
            manager.end(seconds=5)
    finally:
        server.close()


@dataclass
class StreamNode:
    """A node's server and the containers behind it."""

    api: Api
    folder: Path
    certificate: ServingCertificate
    whereabouts: ContainerIndex = field(default_factory=ContainerIndex)
    port: int = 0
    _running: list[Container] = field(default_factory=list)

    @classmethod
    @contextlib.asynccontextmanager
    async def serving(
        cls, plane: Plane, folder: Path, *, most_streams: int = MOST_STREAMS
    ) -> AsyncIterator[StreamNode]:
        clock = SystemClock()
        access = kubeconfig.load(plane.node_kubeconfig)
        async with (
            HttpTransport.open(
                kubeconfig.load(plane.server.target.kubeconfig), clock, agent="test"
            ) as all_may,
            HttpTransport.open(access, clock, agent="test-node") as transport,
        ):
            admin = Api(all_may, random.Random(), manager="test")
            api = Api(transport, random.Random(), manager="test-node")
            keys = plane.node_kubeconfig.parent / "serving"
            certificate = ServingCertificate(
                keys, NAME, ["127.0.0.1"], api, clock, authorities=access.authority or b""
            )
            node = cls(admin, folder, certificate)
            pages = PodPages(node.whereabouts, clock)
            sessions = ExecSessions(pages, ContainerPrograms())
            rooms = ServerBackends(pages, sessions, CallerAuthorizer(api, NAME, clock), {}, most_streams)
            door = listening("127.0.0.1", 0)
            node.port = door.getsockname()[1]
            async with serving(door, certificate.context(), rooms):
                await node._register(api)
                await certificate.look()
                try:
                    yield node
                finally:
                    for container in node._running:
                        await container.stop(signal.SIGKILL, 0)
                    await admin.delete_collection(Pod, SPACE, grace=0)

    async def _register(self, api: Api) -> None:
        await self.api.apply(Node, {"metadata": {"name": NAME}}, force=True)
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
        }
        await api.patch(Node, NAME, "", {"status": status}, subresource="status")

    async def start(self, pod: str, script: str, *, instance: int = 0, **how: Any) -> Container:
        """A pod whose container runs a shell script; another instance of it if it has run before."""
        found = await self.api.find(Pod, pod, SPACE)
        if found is None:
            found = await self.api.create(Pod, manifest(pod, **how))
        folder = self.folder / pod / str(instance)
        launch = LaunchSpec(
            argv=("/bin/sh", "-c", script),
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp"},
            log=LogPolicy(str(folder / LOG)),
            **how,
        )
        container = await containers.start(folder, launch)
        self._running.append(container)
        before = self.folder / pod / str(instance - 1) if instance else None
        self.whereabouts.put(
            found, "main", InstanceSource(folder=folder, container=container, previous=before)
        )
        return container

    async def ended(self, pod: str, container: Container) -> None:
        """What a worker notes when a container has ended."""
        await container.exited()
        found = await self.api.get(Pod, pod, SPACE)
        self.whereabouts.put(found, "main", InstanceSource(folder=container.folder))


def manifest(name: str, **how: Any) -> dict[str, Any]:
    """A pod on the node."""
    container = {
        "name": "main",
        "image": "host/sh",
        **{key: value for key, value in how.items() if key in ("stdin", "tty")},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"nodeName": NAME, "automountServiceAccountToken": False, "containers": [container]},
    }
