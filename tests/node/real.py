"""A node with real processes, at the API server's core in this process.

    async with real_node(tmp_path) as node:
        await node.pod({"containers": [shell("while :; do sleep 1; done")]})
        await node.until(is_ready)

What runs when the context ends is killed: nothing outlives a test.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.kit.loopback import loopback
from tests.kit.node_parts import EVERYTHING, AnyImage, CountedAddresses, PlainVolumes
from tests.kit.waiting import eventually
from tests.node.stage import phase

from pilothouse.api.kind_names import CoreEvent, Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.transport import Transport
from pilothouse.node.agent import Agent
from pilothouse.node.files.directory_removal import DirectoryRemoval
from pilothouse.node.interfaces import AddressManager, CgroupSource, ImageSource, NodeParts, VolumeManager
from pilothouse.node.settings import NodeSettings
from pilothouse.supervise import cgroups, containers
from pilothouse.supervise.containers import Container

NODE = "n1"
FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
"""A script that runs until it is told to stop."""


class RealNode:
    """A node and its pods."""

    def __init__(self, transport: Transport, folder: Path) -> None:
        self._transport = transport
        self.api = Api(transport, random.Random(1), manager="tester")
        self.images: ImageSource = AnyImage()
        self.volumes: VolumeManager = PlainVolumes(folder / "volumes")
        self.addresses: AddressManager = CountedAddresses()
        self.groups: CgroupSource = cgroups.find(f"pilothouse-test-{os.getpid()}")
        self.settings = NodeSettings(name=NODE, data=folder / "node")
        self.survey = EVERYTHING
        self.agent: Agent | None = None
        self._task: asyncio.Task[None] | None = None

    def start_agent(self) -> Agent:
        parts = NodeParts(
            images=self.images,
            volumes=self.volumes,
            addresses=self.addresses,
            containers=containers,
            groups=self.groups,
            removal=DirectoryRemoval(),
            survey=self.survey,
        )
        api = Api(self._transport, random.Random(), manager="node")
        self.agent = Agent(api, self.settings, parts, SystemClock(), random.Random())
        self._task = asyncio.create_task(self.agent.run())
        return self.agent

    async def stop_agent(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def pod(self, spec: Mapping[str, Any], name: str = "web-0", **metadata: Any) -> Object:
        tree: Tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"nodeName": NODE, **spec},
        }
        return await self.api.create(Pod, tree)

    async def until(
        self, what: Callable[[Object], Any], name: str = "web-0", *, seconds: float = 30.0
    ) -> Object:
        """The pod once this is true of it."""
        pod: Object | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    pod = await self.api.find(Pod, name, "default")
                    if pod is not None and what(pod):
                        return pod
                    await asyncio.sleep(0.05)
        raise AssertionError(f"not so after {seconds:g} s: {pod.status if pod else 'no pod'}")

    async def until_gone(self, name: str = "web-0", *, seconds: float = 90.0) -> None:

        async def gone() -> bool:
            return await self.api.find(Pod, name, "default") is None

        await eventually(gone, seconds=seconds)

    async def delete(self, name: str = "web-0", grace: int | None = None) -> None:
        await self.api.delete(Pod, name, "default", grace=grace)

    async def events(self, pod: Object) -> list[str]:
        """What was told of a pod."""
        page = await self.api.list(CoreEvent, "default")
        return [str(each.get("message")) for each in page.objects if each["involvedObject"]["uid"] == pod.uid]

    async def left(self) -> list[Container]:
        """What runs of all that was ever started here."""
        found = []
        for folder in sorted(self.settings.pods.glob("*/containers/*/*")):
            if folder.is_dir() and isinstance(one := await containers.adopt(folder), Container):
                found.append(one)
        return found

    def log(self, pod: Object, container: str = "app", attempt: int = 0) -> str:
        """What a container has printed."""
        path = self.settings.pods / pod.uid / "containers" / container / str(attempt) / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return "\n".join(line.split(" ", 3)[3] for line in lines)


@asynccontextmanager
async def real_node(folder: Path, *, agent: bool = True) -> AsyncIterator[RealNode]:
    """A node that is there within the context."""
    async with loopback() as transport:
        node = RealNode(transport, folder)
        groups = node.groups
        if agent:
            node.start_agent()
        try:
            yield node
        finally:
            await node.stop_agent()
            for one in await node.left():
                await one.stop(signal.SIGKILL, 0)
            await groups.group(".").remove()


def shell(script: str, name: str = "app", **more: Any) -> Tree:
    """A container that runs a shell script."""
    return {"name": name, "image": "host/sh", "command": ["/bin/sh", "-c", script], **more}


def alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def printed(node: RealNode, script: str, **spec: Any) -> str:
    """What a container prints that runs to its end."""
    own = dict(spec.pop("container", {}))
    pod = await node.pod({"restartPolicy": "Never", "containers": [shell(script, **own)], **spec})
    await node.until(lambda pod: phase(pod) in ("Succeeded", "Failed"))
    return node.log(pod)


def is_there(path: Path | str) -> bool:
    return os.path.lexists(path)


def running_with(word: str) -> list[str]:
    """The numbers of processes called sleep that were given this word."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in text and b"sleep" in text.split(b"\0")[0]:
                found.append(folder.name)
    return found
