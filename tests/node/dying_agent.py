"""A node agent that kills itself with SIGKILL at a point of its life that was chosen for it.

    python -m tests.node.dying_agent --kubeconfig K --data D --name n1 --at "containers.start after" --turn 2

Points are the calls that it makes to its parts (before and after), its writes to the API (before they are sent, and when they are
answered), and what it does to files and processes (``open``, ``rename``, ``mkdir``, ``spawn``: before). The n-th time that the point is
reached, the process is gone, in the middle of whatever it was doing. Without ``--at`` it is an agent like any other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader, Transport
from pilothouse.node.addresses.pod_network import PodNetwork
from pilothouse.node.agent import Agent
from pilothouse.node.files.directory_removal import DirectoryRemoval
from pilothouse.node.images.image_store import ImageStore
from pilothouse.node.interfaces import NodeParts
from pilothouse.node.settings import NodeSettings
from pilothouse.node.volumes.assembly import open_volumes
from pilothouse.supervise import cgroups, containers
from pilothouse.supervise.machine_survey import Capability, MachineSurvey


class Fate:
    """Counts how often its point was reached."""

    def __init__(self, point: str, turn: int) -> None:
        self._point = point
        self._left = turn

    def reached(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Doomed:
    """A part whose calls are points."""

    def __init__(self, part: Any, name: str, fate: Fate) -> None:
        self._part = part
        self._name = name
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not callable(found):
            return found
        return self._wrapped(found, f"{self._name}.{name}")

    def _wrapped(self, call: Callable[..., Any], point: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            self._fate.reached(f"{point} before")
            result = call(*args, **named)
            if asyncio.iscoroutine(result):
                return self._finished(result, point)
            self._fate.reached(f"{point} after")
            return Doomed(result, point, self._fate) if point == "groups.group" else result

        return wrapped

    async def _finished(self, result: Any, point: str) -> Any:
        found = await result
        self._fate.reached(f"{point} after")
        return found


class DoomedTransport:
    """Writes are points: ``PATCH …/status before``, and so on."""

    def __init__(self, transport: Transport, fate: Fate) -> None:
        self._transport = transport
        self._fate = fate

    async def request(self, call: ClientRequest) -> ClientResponse:
        point = f"{call.method} {_kind(call.path)}"
        self._fate.reached(f"{point} before")
        answer = await self._transport.request(call)
        self._fate.reached(f"{point} after")
        return answer

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        return self._transport.stream(call)


def _kind(path: str) -> str:
    """What a path is about: ``pods``, ``pods/status``, ``leases``."""
    words = path.split("/namespaces/")[-1].split("/")
    if "/namespaces/" in path:
        words = words[1:]
    else:
        words = words[3:]
    return "/".join([words[0], *words[2:]]) if words else path


def watch_system(data: Path, fate: Fate) -> None:
    """What is done to files below the folder, and processes that are begun, are points too."""

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event in ("subprocess.Popen", "socket.sendmsg"):  # A shim, or a program that a shim is asked for.
            fate.reached("spawn")
        elif event in ("os.rename", "os.mkdir", "open", "os.rmdir", "os.remove"):
            path = str(args[0]) if args and isinstance(args[0], (str, bytes, os.PathLike)) else ""
            writes = event != "open" or (len(args) > 1 and args[1] not in ("r", "rb", None))
            if writes and path.startswith(str(data / "pods")):
                name = Path(str(args[1]) if event == "os.rename" else path).name
                fate.reached(f"{event.removeprefix('os.')} {_called(name)}")

    sys.addaudithook(hear)


def _called(name: str) -> str:
    """The name of a file or folder, without what differs from pod to pod."""
    for begun in ("making", "removing"):
        if name.startswith(f".{begun}-"):
            return begun
    if re.fullmatch(r"[0-9a-f-]{36}", name):
        return "pod"
    return "attempt" if name.isdigit() else re.sub(r"^\.(.*)\.\d+$", r"\1", name)


async def run(kubeconfig: Path, data: Path, name: str, fate: Fate) -> None:
    clock, rng = SystemClock(), random.Random()
    settings = NodeSettings(name=name, data=data)
    async with HttpTransport.open(load(kubeconfig), clock, agent=f"dying-agent/{name}") as transport:
        api = Api(DoomedTransport(transport, fate), rng, manager="pilothouse-node")
        yes = Capability(True)
        volumes = open_volumes(api, node=name, data=data, clock=clock, rng=rng, allocatable={})
        parts = NodeParts(
            images=ImageStore(data / "images", clock),
            volumes=Doomed(volumes, "volumes", fate),
            addresses=Doomed(PodNetwork.open(settings, api, clock, rng), "addresses", fate),
            containers=Doomed(containers, "containers", fate),
            groups=Doomed(cgroups.find(f"pilothouse-test/{name}"), "groups", fate),
            removal=Doomed(DirectoryRemoval(), "removal", fate),
            survey=MachineSurvey(view=yes, ids=yes, users=yes, limits={}),
        )
        watch_system(data, fate)
        await Agent(api, settings, parts, clock, rng).run()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.node.dying_agent")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--at", default="")
    parser.add_argument("--turn", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(run(given.kubeconfig, given.data, given.name, Fate(given.at, given.turn)))


if __name__ == "__main__":
    main()
