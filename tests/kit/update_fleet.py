"""A fleet that a plan updates, of real processes: an API server, and for each machine an update agent and its program; each
machine of the control plane has a controller-manager too.

with UpdateFleet(folder, store="sqlite", controllers=3, workers=3) as fleet:
    fleet.offer("v2.0.0", program("v2.0.0"))
    fleet.apply(fleet.plan("v2.0.0"))
    fleet.until(lambda plan: plan["status"]["state"] == "Completed")

Each machine has a folder, a loopback address and the certificate of a node that joined. ``fleet.replace`` deletes
the plan and applies another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import platform
import re
import signal
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from tests.kit.managed_programs import program
from tests.kit.payload_server import PayloadFile, PayloadServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process

from pilothouse.app.bootstrap_tokens import create as create_token
from pilothouse.app.data_folder import DataFolder
from pilothouse.base.architectures import go_architecture
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.kubeconfig import load
from pilothouse.node.machine.bootstrap import join
from pilothouse.node.machine.node_credentials import NodeCredentials
from pilothouse.supervise import containers
from pilothouse.supervise.containers import Container

Json = dict[str, Any]
GROUP = "/apis/autopilot.k0sproject.io/v1beta2"
PLATFORM = f"linux-{go_architecture(platform.machine())}"
FIRST = "v1.0.0"
MERGE = "application/merge-patch+json"
CONTROLLERS = "plans,drains,disruption-budgets,node-requests"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/pilothouse-controller-manager"
Mode = Literal["worker", "controller", "controller+worker"]


class Machine:
    """One machine: a folder, a program, an update agent, and of the control plane a controller-manager."""

    def __init__(self, fleet: UpdateFleet, name: str, mode: Mode, address: str) -> None:
        self.name = name
        self.mode = mode
        self.address = address
        self.port = _free_port(address)
        self.folder = fleet.folder / name
        self.program = self.folder / "bin" / "program"
        self._fleet = fleet
        self.agent: Process | None = None
        self.manager: Process | None = None

    def prepare(self) -> None:
        self.program.parent.mkdir(parents=True)
        self.program.write_bytes(program(FIRST))
        self.program.chmod(0o755)
        where = f"{self.address}:{self.port}"
        profile = {
            "path": str(self.program),
            "version": ["{path}", "ask", where],
            "health": f"http://{where}/readyz",
            "run": ["{path}", "serve", where],
            "images": str(self.folder / "images"),
            "healthFor": "100ms",
            "healthWithin": "5s",
            "stopGrace": "5s",
        }
        (self.folder / "profile.yaml").write_text(json.dumps(profile))

    @property
    def data(self) -> Path:
        """The folder of its update agent."""
        return self.folder / "data"

    async def join(self, access: Access) -> None:
        """Get the certificate of its node."""
        token = await create_token(access, access.urls, lifetime=None, description="", node=self.name)
        await join(token, self.name, NodeCredentials(DataFolder.open(self.data).path), SystemClock())

    def certificate(self) -> bytes:
        """What its update agent identifies itself with."""
        return NodeCredentials(DataFolder.open(self.data).path).credential_file.read_bytes()

    def start_agent(self, *, clock_ahead: float = 0.0) -> None:
        """``clock_ahead``: seconds by which the clock of the machine is."""
        flags = ["--data", str(self.data), "--no-pods", "--node-ip", self.address]
        flags += ["--update-profile", str(self.folder / "profile.yaml")]
        flags += ["--mode", self.mode, "--api-port", str(self.port), *self._fleet.agent_flags]
        self.agent = self._fleet.start(f"agent {self.name}", "node", *flags, clock_ahead=clock_ahead)

    def start_manager(self) -> None:
        timing = ("lease-duration=3s", "renew-deadline=2s", "retry-period=500ms")
        flags = [f"--leader-elect-{each}" for each in timing]
        flags += ["--control-node", self.name, "--control-node-mode", self.mode, "--ready-scheme", "http"]
        flags += ["--controllers", CONTROLLERS, *self._fleet.manager_flags]
        config = self._fleet.server.target.kubeconfig.with_name("controller-manager.kubeconfig")
        flags += ["--kubeconfig", str(config)]
        name, ahead = f"manager {self.name}", self._fleet.clock_ahead
        self.manager = self._fleet.start(name, "controller-manager", *flags, clock_ahead=ahead)

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.kill()

    def kill_manager(self) -> None:
        assert self.manager is not None
        self.manager.kill()

    def kill_program(self) -> None:
        """Kill the program; if it is being restarted, as soon as it answers."""
        pid = self._fleet.wait(lambda: self._ask("/pid"), f"the program of {self.name}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)

    def stop_program(self) -> None:
        """End the program, which outlives its agent."""
        asyncio.run(stop_program(self.data))

    def version(self) -> str:
        """What its program says, or nothing."""
        return self._ask("/version")

    def _ask(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://{self.address}:{self.port}{path}", timeout=2) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


class UpdateFleet:
    def __init__(
        self,
        folder: Path,
        *,
        store: str = "sqlite",
        controllers: int | Sequence[str] = 3,
        workers: int | Sequence[str] = 3,
        mode: Mode = "controller",
        manager_flags: Sequence[str] = (),
        agent_flags: Sequence[str] = (),
    ) -> None:
        """How many machines, or their names. ``mode`` is that of the controllers; ``manager_flags`` go to every
        controller-manager, ``agent_flags`` to every update agent."""
        self.folder = folder
        self.manager_flags = manager_flags
        self.agent_flags = agent_flags
        self.clock_ahead = 0.0
        """Seconds by which the clocks of the control hosts are ahead: of managers that are started from now on."""
        self._resources = contextlib.ExitStack()
        self._store = store
        addresses = (f"127.0.2.{number}" for number in itertools.count(1))
        self.controllers = [
            Machine(self, name, mode, next(addresses)) for name in _names("controller", controllers)
        ]
        self.workers = [Machine(self, name, "worker", next(addresses)) for name in _names("worker", workers)]
        self.history: list[Json] = []
        """Every state of the plan that was seen."""

    @property
    def machines(self) -> list[Machine]:
        return [*self.controllers, *self.workers]

    def machine(self, name: str) -> Machine:
        return next(machine for machine in self.machines if machine.name == name)

    def set_clocks(self, now: float) -> None:
        """Start all managers again, on machines whose clocks show this time."""
        self.clock_ahead = now - time.time()
        for machine in self.controllers:
            machine.kill_manager()
        for machine in self.controllers:
            machine.start_manager()

    def leader(self) -> Machine:
        """The machine whose manager leads; waits until one does that is alive."""
        found = self.wait(self._leader, "a leader")
        assert isinstance(found, Machine)
        return found

    def _leader(self) -> Machine | None:
        holder = re.search(r"_(\d+)_", self.send("GET", LEASE)["spec"].get("holderIdentity") or "")
        for machine in self.controllers:
            process = machine.manager
            if holder and process and process.pid == int(holder[1]) and process.popen.poll() is None:
                return machine
        return None

    def __enter__(self) -> UpdateFleet:
        with contextlib.ExitStack() as resources:
            self._resources = resources
            self.server = PilothouseServer(self.folder / "server", self._store)
            resources.callback(self.server.close)
            self.payloads = resources.enter_context(PayloadServer.running())
            for machine in self.machines:
                machine.prepare()
                resources.callback(machine.stop_program)
            for machine in self.controllers:
                machine.start_manager()
            asyncio.run(self._join())
            for machine in self.machines:
                if machine.mode != "controller":
                    self._create_node(machine)
            for machine in self.machines:
                machine.start_agent()
            self.wait(self._is_up, "machines to register and their programs to run")
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def start(self, name: str, command: str, *flags: str, clock_ahead: float) -> Process:
        module = ["tests.kit.moved_clock", str(clock_ahead)] if clock_ahead else ["pilothouse"]
        argv = [sys.executable, "-m", *module, command]
        log = self.folder / f"{name.replace(' ', '-')}.log"
        process = Process.start(f"pilothouse {name}", [*argv, *flags], log=log)
        self._resources.callback(process.kill)
        return process

    def offer(self, version: str, content: bytes) -> None:
        self.payloads.files[f"/{version}"] = PayloadFile(content)

    def plan(self, version: str, *, rollout: Json | None = None, workers: int = 1, **update: Any) -> Json:
        """A plan for all machines; ``update`` replaces fields of its command."""
        targets: Json = {"controllers": _named(self.controllers, 1), "workers": _named(self.workers, workers)}
        command = {"version": version, "platforms": self.platforms(version), "targets": targets, **update}
        return self.plan_of({"k0supdate": command}, rollout=rollout)

    def plan_of(self, *commands: Json, rollout: Json | None = None) -> Json:
        """A plan of these commands."""
        spec: Json = {"id": "id123", "timestamp": "now", "commands": list(commands)}
        if rollout is not None:
            spec["rollout"] = rollout
        return {
            "apiVersion": "autopilot.k0sproject.io/v1beta2",
            "kind": "Plan",
            "metadata": {"name": "autopilot"},
            "spec": spec,
        }

    def platforms(self, version: str) -> Json:
        """Where this machine's platform finds what was offered."""
        return {PLATFORM: {"url": self.payloads.url(f"/{version}")}}

    def apply(self, plan: Json) -> None:
        self.send("POST", f"{GROUP}/plans", plan)

    def replace(self, plan: Json | None = None) -> None:
        """Delete the plan, if there is one, and apply this one; its history begins anew."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.send("DELETE", f"{GROUP}/plans/autopilot")
        self.wait(lambda: not self.send("GET", f"{GROUP}/plans")["items"], "the plan to be deleted")
        self.history.clear()
        if plan is not None:
            self.apply(plan)

    def send(self, method: str, path: str, body: Json | None = None, type: str = "application/json") -> Json:
        target = self.server.target
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(target.url + path, data, {"Content-Type": type}, method=method)
        context: ssl.SSLContext = target.trust()
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return dict(json.loads(answer.read()))

    def answers(self, method: str, path: str, body: Json | None = None) -> bool:
        """Whether a request succeeds."""
        try:
            self.send(method, path, body)
        except urllib.error.HTTPError:
            return False
        return True

    def completed(self) -> Json:
        """The plan, once it has completed; it must not end otherwise."""
        plan = self.until(lambda one: one["status"].get("completedTime") is not None)
        assert plan["status"]["state"] == "Completed", plan["status"]
        return plan

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

    async def _join(self) -> None:
        access = load(self.server.target.kubeconfig)
        await asyncio.gather(*(machine.join(access) for machine in self.machines))

    def _create_node(self, machine: Machine) -> None:
        os_name, _, architecture = PLATFORM.partition("-")
        labels = {"kubernetes.io/os": os_name, "kubernetes.io/arch": architecture}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine.name, "labels": labels}}
        self.send("POST", "/api/v1/nodes", node)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"status": {"conditions": [ready]}}
        self.send("PATCH", f"/api/v1/nodes/{machine.name}/status", status, MERGE)


def _names(kind: str, wanted: int | Sequence[str]) -> Sequence[str]:
    return [f"{kind}{number}" for number in range(wanted)] if isinstance(wanted, int) else wanted


def named(*names: str) -> Json:
    """Targets by their names."""
    return {"discovery": {"static": {"nodes": list(names)}}}


async def stop_program(data: Path) -> None:
    """End the program that an update agent with this data folder has started."""
    for folder in (data / "node" / "updates" / "program").glob("*"):
        found = await containers.adopt(folder) if folder.is_dir() else None
        if isinstance(found, Container):
            await found.stop(9, 0)


def _named(machines: list[Machine], concurrent: int) -> Json:
    return {**named(*(machine.name for machine in machines)), "limits": {"concurrent": concurrent}}


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
