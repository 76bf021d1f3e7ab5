"""A fleet that a plan updates, of real processes: an API server, and for each machine an update agent and its program; each
machine of the control plane has a controller-manager too.

with UpdateFleet(folder, store="sqlite", controllers=3, workers=3) as fleet:
    fleet.offer("v2.0.0", program("v2.0.0"))
    fleet.apply(fleet.plan("v2.0.0"))
    fleet.until(lambda plan: plan["status"]["state"] == "Completed")
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import platform
import socket
import ssl
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.kit.managed_programs import program
from tests.kit.payload_server import PayloadFile, PayloadServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process

from pilothouse.base.architectures import go_architecture
from pilothouse.supervise import containers
from pilothouse.supervise.containers import Container

Json = dict[str, Any]
GROUP = "/apis/autopilot.k0sproject.io/v1beta2"
PLATFORM = f"linux-{go_architecture(platform.machine())}"
FIRST = "v1.0.0"
MERGE = "application/merge-patch+json"


class Machine:
    """One machine: a folder, a program, an update agent, and of the control plane a controller-manager."""

    def __init__(self, fleet: UpdateFleet, name: str, *, controller: bool) -> None:
        self.name = name
        self.controller = controller
        self.port = _free_port()
        self.folder = fleet.folder / name
        self.program = self.folder / "bin" / "program"
        self._fleet = fleet
        self.agent: Process | None = None
        self.manager: Process | None = None

    def prepare(self) -> None:
        self.program.parent.mkdir(parents=True)
        self.program.write_bytes(program(FIRST))
        self.program.chmod(0o755)
        profile = {
            "path": str(self.program),
            "version": ["{path}", "ask", str(self.port)],
            "health": f"http://127.0.0.1:{self.port}/readyz",
            "run": ["{path}", "serve", str(self.port)],
            "images": str(self.folder / "images"),
            "healthFor": "100ms",
            "healthWithin": "5s",
            "stopGrace": "5s",
        }
        (self.folder / "profile.yaml").write_text(json.dumps(profile))

    def start_agent(self) -> None:
        flags = [
            "--name",
            self.name,
            "--data",
            str(self.folder / "data"),
            "--no-pods",
            "--node-ip",
            "127.0.0.1",
        ]
        flags += ["--update-profile", str(self.folder / "profile.yaml")]
        flags += ["--mode", "controller" if self.controller else "worker", "--api-port", str(self.port)]
        self.agent = self._fleet.start(f"agent {self.name}", "node", *flags)

    def start_manager(self) -> None:
        timing = ("lease-duration=3s", "renew-deadline=2s", "retry-period=500ms")
        flags = [f"--leader-elect-{each}" for each in timing]
        flags += ["--control-node", self.name, "--ready-scheme", "http"]
        flags += ["--controllers", "plans,drains,disruption-budgets"]
        self.manager = self._fleet.start(f"manager {self.name}", "controller-manager", *flags)

    def stop_program(self) -> None:
        """End the program, which outlives its agent."""
        asyncio.run(self._stop_program())

    async def _stop_program(self) -> None:
        for folder in (self.folder / "data" / "node" / "updates" / "program").glob("*"):
            found = await containers.adopt(folder) if folder.is_dir() else None
            if isinstance(found, Container):
                await found.stop(9, 0)

    def version(self) -> str:
        """What its program says, or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/version", timeout=2) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


class UpdateFleet:
    def __init__(
        self, folder: Path, *, store: str = "sqlite", controllers: int = 3, workers: int = 3
    ) -> None:
        self.folder = folder
        self._resources = contextlib.ExitStack()
        self._store = store
        self.controllers = [Machine(self, f"controller{n}", controller=True) for n in range(controllers)]
        self.workers = [Machine(self, f"worker{n}", controller=False) for n in range(workers)]
        self.history: list[Json] = []
        """Every state of the plan that was seen."""

    @property
    def machines(self) -> list[Machine]:
        return [*self.controllers, *self.workers]

    def __enter__(self) -> UpdateFleet:
        with contextlib.ExitStack() as resources:
            self._resources = resources
            self.server = PilothouseServer(self.folder / "server", self._store)
            resources.callback(self.server.close)
            self.payloads = resources.enter_context(PayloadServer.running())
            for machine in self.machines:
                machine.prepare()
                resources.callback(machine.stop_program)
            for machine in self.workers:
                self._create_node(machine)
            for machine in self.controllers:
                machine.start_manager()
            for machine in self.machines:
                machine.start_agent()
            self.wait(self._is_up, "machines to register and their programs to run")
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def start(self, name: str, command: str, *flags: str) -> Process:
        argv = [
            sys.executable,
            "-m",
            "pilothouse",
            command,
            "--kubeconfig",
            str(self.server.target.kubeconfig),
        ]
        log = self.folder / f"{name.replace(' ', '-')}.log"
        process = Process.start(f"pilothouse {name}", [*argv, *flags], log=log)
        self._resources.callback(process.kill)
        return process

    def offer(self, version: str, content: bytes) -> None:
        self.payloads.files[f"/{version}"] = PayloadFile(content)

    def plan(self, version: str, *, rollout: Json | None = None, workers: int = 1, **update: Any) -> Json:
        """A plan for all machines."""
        targets: Json = {"controllers": _named(self.controllers, 1), "workers": _named(self.workers, workers)}
        payload = {"url": self.payloads.url(f"/{version}")}
        command = {"version": version, "platforms": {PLATFORM: payload}, "targets": targets, **update}
        spec: Json = {"id": "id123", "commands": [{"k0supdate": command}]}
        if rollout is not None:
            spec["rollout"] = rollout
        return {
            "apiVersion": "autopilot.k0sproject.io/v1beta2",
            "kind": "Plan",
            "metadata": {"name": "autopilot"},
            "spec": spec,
        }

    def apply(self, plan: Json) -> None:
        self.send("POST", f"{GROUP}/plans", plan)

    def send(self, method: str, path: str, body: Json | None = None, type: str = "application/json") -> Json:
        target = self.server.target
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(target.url + path, data, {"Content-Type": type}, method=method)
        context: ssl.SSLContext = target.trust()
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return dict(json.loads(answer.read()))

    def until(self, holds: Callable[[Json], bool], *, seconds: float = 240) -> Json:
        """The plan, once this holds. Its states on the way are in ``history``."""
        return dict(self.wait(lambda: self._looked(holds), "the plan", seconds))

    def wait(self, probe: Callable[[], Any], what: str, seconds: float = 120) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := probe()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s for {what}; {self.history[-1:]}")
            time.sleep(0.1)
        return found

    def _looked(self, holds: Callable[[Json], bool]) -> Json | None:
        plan = self.send("GET", f"{GROUP}/plans/autopilot")
        if not self.history or self.history[-1] != plan:
            self.history.append(plan)
        return plan if plan.get("status") and holds(plan) else None

    def _is_up(self) -> bool:
        found = self.send("GET", f"{GROUP}/controlnodes")["items"]
        reported = [each for each in found if (each.get("status") or {}).get("k0sVersion") == FIRST]
        return len(reported) == len(self.controllers) and all(
            each.version() == FIRST for each in self.machines
        )

    def _create_node(self, machine: Machine) -> None:
        os_name, _, architecture = PLATFORM.partition("-")
        labels = {"kubernetes.io/os": os_name, "kubernetes.io/arch": architecture}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine.name, "labels": labels}}
        self.send("POST", "/api/v1/nodes", node)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"status": {"conditions": [ready]}}
        self.send("PATCH", f"/api/v1/nodes/{machine.name}/status", status, MERGE)


def _named(machines: list[Machine], concurrent: int) -> Json:
    names = [machine.name for machine in machines]
    return {"discovery": {"static": {"nodes": names}}, "limits": {"concurrent": concurrent}}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
