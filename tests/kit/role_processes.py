"""A control plane whose API server, controller-manager and node agent are processes that a test may kill.

    with RoleProcesses(folder, "--tier", f"fast={folder / 'fast'}") as plane:
        plane.kill("node")                  # SIGKILL; on return the next one has been started
        async with plane.api() as api: …
        await plane.kubectl("get", "nodes")

They run as `pilothouse up` runs them. That one would wait longer before each restart of the same process.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Self

from tests.kit.kubectl import Kubectl, newest
from tests.kit.processes import Process, free_port

from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

ROLES = ("apiserver", "controller-manager", "node")
_READY = {"apiserver": " is ready at ", "controller-manager": "metrics are at ", "node": " is ready"}
_NODE = "n1"


class RoleProcesses:
    def __init__(self, folder: Path, *node_flags: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        port, node_port = free_port(), free_port()
        at = ("--data", str(self.data))
        listen = ("--listen", f"127.0.0.1:{port}", "--local-node", _NODE)
        manager = ("--kubeconfig", str(self.data / "controller-manager.kubeconfig"), "--no-leader-elect")
        node = ("--kubeconfig", str(self.data / "node.kubeconfig"), "--name", _NODE, "--stop-pods")
        self._flags = {
            "apiserver": (*at, *listen),
            "controller-manager": (*manager, "--control-node", _NODE),
            "node": (*at, *node, "--listen", f"127.0.0.1:{node_port}", "--api-port", str(port), *node_flags),
        }
        self._processes: dict[str, Process] = {}
        self._starts = dict.fromkeys(ROLES, 0)

    def __enter__(self) -> Self:
        try:
            for role in ROLES:
                process = self._start(role, *(("--local-node-absent",) if role == "apiserver" else ()))
                process.wait_until(lambda: _READY[role] in process.output(), seconds=60)  # noqa: B023
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        """The node first: it stops its pods."""
        for role in reversed(ROLES):
            if role in self._processes:
                self._processes[role].end(seconds=60)

    def _start(self, role: str, *more: str) -> Process:
        self._starts[role] += 1
        argv = [sys.executable, "-m", "pilothouse", role, *self._flags[role], *more]
        log = self.folder / "logs" / f"{role}-{self._starts[role]}.log"
        self._processes[role] = Process.start(role, argv, log=log)
        return self._processes[role]

    def kill(self, role: str) -> None:
        process = self._processes[role]
        assert process.popen.poll() is None, f"{role} has ended by itself:\n{process.output()}"
        process.kill()
        assert process.popen.returncode == -signal.SIGKILL
        self._start(role)

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(newest(), self.data / "admin.kubeconfig", self.folder / "home")

    @contextlib.asynccontextmanager
    async def api(self) -> AsyncIterator[Api]:
        """As an administrator."""
        access = load(self.data / "admin.kubeconfig")
        async with HttpTransport.open(access, SystemClock(), agent="pilothouse-test") as transport:
            yield Api(transport, Random(1), manager="test")
