"""A node whose programs are played, at a real API server, in virtual time.

def test_something(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = Play(runs=3.0, code=1)
        await stage.pod({"containers": [{"name": "app", "image": "app:1"}]})
        await stage.until(lambda: stage.phase() == "Running")
    stage.play(scene)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from tests.kit.fake_machine import FakeMachine
from tests.kit.node_parts import (
    EVERYTHING,
    AnyImage,
    CountedAddresses,
    PlainGroups,
    PlainRemoval,
    PlainVolumes,
)

from pilothouse.api.kind_names import CoreEvent, Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.node.agent import Agent
from pilothouse.node.interfaces import NodeParts
from pilothouse.node.settings import NodeSettings
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.simulated_server import SimulatedServer

NODE = "n1"


class Stage:
    """A server, one node, and its pods."""

    def __init__(self, loop: SeededLoop, folder: Path) -> None:
        self.loop = loop
        self.clock = LoopClock(loop)
        self.server = SimulatedServer(self.clock, seed=1)
        self.api = self.server.api("tester")
        self.machine = FakeMachine(self.clock)
        self.images = AnyImage()
        self.volumes = PlainVolumes(folder / "volumes")
        self.addresses = CountedAddresses()
        self.groups = PlainGroups()
        self.removal = PlainRemoval()
        self.settings = NodeSettings(name=NODE, data=folder / "node")
        self.serving_problem = ""
        """Why the node's own server can't be called, as its agent is told."""
        self.agents = 0
        self._agent: asyncio.Task[None] | None = None
        self.agent: Agent | None = None

    def play(self, scene: Callable[[], Awaitable[None]], *, agent: bool = True) -> None:
        """Run a scene to its end."""

        async def whole() -> None:
            async with self.server.running():
                if agent:
                    self.start_agent()
                try:
                    await scene()
                finally:
                    await self.kill_agent()

        self.loop.run_until_complete(whole())

    def new_agent(self) -> Agent:
        """One that does not run yet."""
        self.agents += 1
        parts = NodeParts(
            images=self.images,
            volumes=self.volumes,
            addresses=self.addresses,
            containers=self.machine,
            groups=self.groups,
            removal=self.removal,
            survey=EVERYTHING,
        )
        api = self.server.api(f"agent {self.agents}")
        rng = random.Random(self.agents)
        return Agent(api, self.settings, parts, self.clock, rng, serving_problem=lambda: self.serving_problem)

    def start_agent(self) -> Agent:
        self.agent = agent = self.new_agent()
        self._agent = asyncio.ensure_future(agent.run())
        return agent

    @property
    def is_agent_running(self) -> bool:
        return self._agent is not None and not self._agent.done()

    async def kill_agent(self) -> None:
        """What runs goes on running."""
        if self._agent is not None:
            self._agent.cancel()
            await asyncio.gather(self._agent, return_exceptions=True)
            self._agent = None

    async def restart_agent(self) -> None:
        await self.kill_agent()
        self.start_agent()

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.loop.time()

    async def pod(self, spec: Mapping[str, Any], name: str = "web-0", **metadata: Any) -> Object:
        """Make a pod that is bound to the node."""
        tree: Tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"nodeName": NODE, **spec},
        }
        return await self.api.create(Pod, tree)

    async def get(self, name: str = "web-0") -> Object:
        return await self.api.get(Pod, name, "default")

    async def find(self, name: str = "web-0") -> Object | None:
        return await self.api.find(Pod, name, "default")

    async def delete(self, name: str = "web-0", grace: int | None = None) -> None:
        await self.api.delete(Pod, name, "default", grace=grace)

    async def until(
        self, what: Callable[[Object], Any], name: str = "web-0", *, seconds: float = 60.0
    ) -> Object:
        """The pod once this is true of it."""
        pod: Object | None = None
        for _ in range(int(seconds / 0.25)):
            pod = await self.find(name)
            if pod is not None and what(pod):
                return pod
            await asyncio.sleep(0.25)
        raise AssertionError(f"not so after {seconds:g} s: {pod.status if pod else 'no pod'}")

    async def until_gone(self, name: str = "web-0", *, seconds: float = 120.0) -> None:
        for _ in range(int(seconds / 0.25)):
            if await self.find(name) is None:
                return
            await asyncio.sleep(0.25)
        raise AssertionError(f"pod {name} is still there after {seconds:g} s")

    async def events(self, name: str = "web-0") -> list[tuple[str, str]]:
        """Reason and message of what was told of a pod."""
        page = await self.api.list(CoreEvent, "default")
        return [
            (str(event["reason"]), str(event.get("message") or ""))
            for event in page.objects
            if event["involvedObject"]["name"] == name
        ]


def container(pod: Object, name: str = "app") -> Tree:
    """A container's status."""
    statuses = [
        *(pod.status.get("initContainerStatuses") or ()),
        *(pod.status.get("containerStatuses") or ()),
    ]
    return next((each for each in statuses if each["name"] == name), {})


def state(pod: Object, name: str = "app") -> str:
    """running, waiting or terminated."""
    return next(iter(container(pod, name).get("state") or {}), "")


def reason(pod: Object, name: str = "app") -> str:
    """Why it waits or has ended."""
    held: dict[str, Tree] = container(pod, name).get("state") or {}
    return str(next((each.get("reason") for each in held.values()), "") or "")


def is_ready(pod: Object) -> bool:
    return pod.is_true("Ready")


def phase(pod: Object) -> str:
    return str(pod.status.get("phase") or "")


def app(name: str = "app", **more: Any) -> Tree:
    """A container of a manifest."""
    return {"name": name, "image": "app:1", "command": ["run"], **more}
