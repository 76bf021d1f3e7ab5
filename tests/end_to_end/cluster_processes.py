"""The processes of a cluster on `pilothouse up`, found so that they can be killed, or seen to be the same.

processes = ClusterProcesses(installation, demo)
await processes.kill("leader", near="es-demo-data-0")
before = await processes.lives()                      # what must not change while nothing restarts
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit.elasticsearch_on_up import Cluster, ElasticsearchOnUp
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Lease
from pilothouse.api.navigator.labels import leader_lease
from pilothouse.api.objects import Object
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.supervise import container_records

VICTIMS = ("pilot", "database", "leader", "controller-manager", "apiserver")


class ClusterProcesses:
    """Of one cluster."""

    def __init__(self, installation: ElasticsearchOnUp, cluster: Cluster) -> None:
        self._installation = installation
        self._cluster = cluster

    async def lives(self) -> dict[str, tuple[Any, ...]]:
        """By pod: its processes, how often its container was started, and since when its database runs."""
        started = {each.name: each.status.get("lastStartedTime") for each in await self._cluster.pilots()}
        return {
            pod.name: (
                self._pilot(pod),
                self._database(pod),
                pod.at("status", "containerStatuses")[0]["restartCount"],
                started[pod.name],
            )
            for pod in await self._cluster.pods()
        }

    async def kill(self, victim: str, *, near: str) -> str:
        """Without a word: one of ``VICTIMS``, of the pod ``near`` where it has one. Says who it was."""

        async def struck() -> str:
            if victim in ("controller-manager", "apiserver"):
                pid, who = self._installation.roles()[victim], victim
            else:
                try:
                    pid, who = await self._running(victim, near)
                except (TransportError, StatusError):
                    return ""
            if not pid:
                return ""
            os.kill(pid, signal.SIGKILL)
            return f"{who} ({pid})"

        return await eventually(struck, seconds=300)

    async def _running(self, victim: str, near: str) -> tuple[int, str]:
        """One that runs; that of another pod where there is none in this one."""
        if victim == "leader":
            lease = await self._installation.api.get(
                Lease, leader_lease(self._cluster.name), self._cluster.namespace
            )
            near = str(lease.spec.get("holderIdentity") or "").partition("_")[0]
        pods = sorted(await self._cluster.pods(), key=lambda pod: pod.name != near)
        for pod in pods:
            pid = self._database(pod) if victim == "database" else self._pilot(pod)
            if pid:
                return pid, f"{victim} of {pod.name}"
        return 0, ""

    def _pilot(self, pod: Object) -> int:
        """0 if none runs."""
        folder = self._installation.data / "node" / "pods" / pod.uid / "containers" / "elasticsearch"
        attempts = [int(each.name) for each in folder.glob("*") if each.name.isdigit()]
        state = container_records.read_state(folder / str(max(attempts))) if attempts else None
        return state.pid if state is not None and Path(f"/proc/{state.pid}").exists() else 0

    def _database(self, pod: Object) -> int:
        """The youngest Java of a pod: from 8 on, a first one does nothing but start the node itself."""
        running = [pid for pid in _below(self._pilot(pod)) if _program(pid) == "java"]
        return running[-1] if running else 0


def _below(pid: int) -> Iterator[int]:
    """The processes that one has started, and those that these have."""
    if not pid:
        return
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield int(child)
        yield from _below(int(child))


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
