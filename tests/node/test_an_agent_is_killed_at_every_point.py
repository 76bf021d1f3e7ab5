"""A real agent with real processes is killed with SIGKILL at each point of a pod's life; the next one goes on.

Every instance of the main container tries to take a lock that the one before must have given up, and writes down that it was started;
whatever still runs in the end is found by a mark in its environment. So what is checked is what happened, not what was told.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process
from tests.kit.waiting import eventually
from tests.node.stage import container, is_ready

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import SystemClock
from pilothouse.base.uids import new_uid
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.node.volumes.removal import remove
from pilothouse.supervise import containers

ROUNDS = 50 if os.environ.get("PILOTHOUSE_SOAK") else 2
AT_ONCE = 5
"""Each life waits more than it works, and has a node of its own."""
POINTS = [
    ("mkdir making", 1),
    ("rename pod", 1),
    ("addresses.assign before", 1),
    ("addresses.assign after", 1),
    ("volumes.prepare before", 1),
    ("volumes.prepare after", 1),
    ("mkdir attempt", 1),
    ("mkdir attempt", 3),
    ("groups.group.make after", 2),
    ("containers.start before", 1),
    ("containers.start before", 3),
    ("containers.start before", 4),
    ("spawn", 1),
    ("spawn", 3),
    ("spawn", 4),
    ("spawn", 6),
    ("containers.start after", 1),
    ("containers.start after", 2),
    ("containers.start after", 3),
    ("containers.start after", 4),
    ("rename pause.json", 1),
    ("rename hooked", 1),
    ("PATCH pods/status before", 1),
    ("PATCH pods/status after", 1),
    ("PATCH pods/status after", 3),
    ("rename ending.json", 1),
    ("groups.group.remove before", 1),
    ("groups.group.remove after", 1),
    ("volumes.release before", 1),
    ("volumes.release after", 1),
    ("addresses.release after", 1),
    ("DELETE pods before", 1),
    ("DELETE pods after", 1),
    ("rename removing", 1),
    ("removal.remove before", 2),
]
QUICK = [("containers.start after", 4), ("spawn", 3), ("DELETE pods before", 1)]
MAIN = """
exec 9>/data/lock
flock -n 9 || echo double >> /data/double
echo app >> /data/starts
test -e /data/failed || { touch /data/failed; exit 1; }
trap 'exit 0' TERM
while :; do sleep 0.05; done
"""
SIDE = "echo side >> /data/starts; trap 'exit 0' TERM; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilothouseServer]:
    server = PilothouseServer(tmp_path_factory.mktemp("server"), "memory")
    yield server
    server.close()


class Life:
    """A pod's life under agents that die."""

    def __init__(self, api: Api, kubeconfig: Path, folder: Path, name: str, point: str, turn: int) -> None:
        self._api = api
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._name = name
        self.mark = f"pilothouse-mark-{new_uid()}"
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self.agent = self._start("--at", point, "--turn", str(turn))
        self.deaths = 0

    def _start(self, *more: str) -> Process:
        argv = [sys.executable, "-m", "tests.node.dying_agent", "--kubeconfig", str(self._kubeconfig)]
        argv += ["--data", str(self._folder / "node"), "--name", self._name, *more]
        log = self._folder / "agent.log"
        return Process.start("agent", argv, log=log)

    def _attend(self) -> None:
        """One that has died is followed by one that does not."""
        if self.agent.popen.poll() is not None:
            assert self.agent.popen.returncode == -9, self.agent.output()
            self.deaths += 1
            self.agent = self._start()

    async def make(self) -> None:
        mark = [{"name": "MARK", "value": self.mark}]
        mounts = [{"name": "data", "mountPath": "/data"}, {"name": "scratch", "mountPath": "/scratch"}]
        own = {"image": "host/sh", "env": mark, "volumeMounts": mounts}
        hooks = {
            "postStart": {"exec": {"command": ["sh", "-c", "echo hello >> /data/hooks"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "sleep 0.2; echo goodbye >> /data/hooks"]}},
        }
        init = {"name": "init", "command": ["sh", "-c", "echo init >> /data/starts"], **own}
        side = {"name": "side", "command": ["sh", "-c", SIDE], "restartPolicy": "Always", **own}
        main = {"name": "app", "command": ["sh", "-c", MAIN], "lifecycle": hooks, **own}
        pod: Tree = {
            "metadata": {"name": self._name, "namespace": "default"},
            "spec": {
                "nodeName": self._name,
                "automountServiceAccountToken": False,
                # Long enough for an agent to die and be followed: what is left of it is the hook's.
                "terminationGracePeriodSeconds": 60,
                "initContainers": [init, side],
                "containers": [main],
                "volumes": [
                    {"name": "data", "hostPath": {"path": str(self.data)}},
                    {"name": "scratch", "emptyDir": {}},
                ],
            },
        }
        await self._api.create(Pod, pod)

    async def delete(self) -> None:
        await self._api.delete(Pod, self._name, "default")

    async def ready(self) -> Object:
        async def probe() -> Object | None:
            self._attend()
            pod = await self._api.find(Pod, self._name, "default")
            # The first instance fails by itself: it is the second that stays.
            return pod if pod and is_ready(pod) and container(pod)["restartCount"] == 1 else None

        return await eventually(probe, seconds=60)

    async def gone(self) -> None:
        async def probe() -> bool:
            self._attend()
            pod = await self._api.find(Pod, self._name, "default")
            return pod is None and not any((self._folder / "node" / "pods").iterdir())

        await eventually(probe, seconds=60)

    def processes(self) -> list[str]:
        """Whatever runs of the pod, its shims included."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != self.agent.pid:
                try:
                    text = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
                except OSError:
                    continue
                if self.mark.encode() in text or str(self._folder / "node" / "pods").encode() in text:
                    found.append(f"{folder.name} {text[-300:]!r}")
        return found

    async def close(self) -> None:
        """Whatever came of it, nothing of it outlives the test."""
        self.agent.kill()
        for folder in (self._folder / "node" / "pods").glob("*/containers/*/*"):
            if folder.is_dir() and isinstance(one := await containers.adopt(folder), containers.Container):
                await one.stop(signal.SIGKILL, 0)
        remove(self._folder / "node")


@asynccontextmanager
async def life(
    server: PilothouseServer, folder: Path, name: str, point: str, turn: int
) -> AsyncIterator[Life]:
    async with HttpTransport.open(load(server.target.kubeconfig), SystemClock(), agent="tester") as transport:
        api = Api(transport, random.Random(), manager="tester")
        one = Life(api, server.target.kubeconfig, folder, name, point, turn)
        try:
            yield one
        finally:
            await one.close()


async def live(server: PilothouseServer, folder: Path, name: str, point: str, turn: int) -> None:
    """All of a pod's life, with one death of its agent."""
    async with life(server, folder, name, point, turn) as one:
        await one.make()
        await one.ready()
        await one.delete()
        await one.gone()
        await eventually(lambda: _nobody(one), seconds=60)
        assert one.deaths == 1, f"the agent never came to {point!r} for the {turn}. time"
        starts = (one.data / "starts").read_text().split()
        assert sorted(starts) == ["app", "app", "init", "side"]
        assert not (one.data / "double").exists()
        assert "goodbye" in (one.data / "hooks").read_text()


async def _nobody(one: Life) -> bool:
    await asyncio.sleep(0)
    return not one.processes()


@pytest.mark.parametrize(("point", "turn"), QUICK)
async def test_nothing_is_orphaned_or_doubled(
    server: PilothouseServer, tmp_path: Path, point: str, turn: int
) -> None:
    name = f"quick-{QUICK.index((point, turn))}"
    await live(server, tmp_path, name, point, turn)


@pytest.mark.long
@pytest.mark.parametrize(("point", "turn"), POINTS, ids=[f"{point}, {turn}" for point, turn in POINTS])
async def test_nothing_is_orphaned_or_doubled_wherever_it_happens(
    server: PilothouseServer, tmp_path: Path, point: str, turn: int
) -> None:
    for first in range(0, ROUNDS, AT_ONCE):
        async with asyncio.TaskGroup() as lives:
            for number in range(first, min(first + AT_ONCE, ROUNDS)):
                name = f"p{POINTS.index((point, turn))}-{number}"
                lives.create_task(live(server, tmp_path / name, name, point, turn))
