"""A fleet that updates Pilothouse itself, of real processes: on each machine, Pilothouse is installed as a tree, and a service manager runs
what the machine has to run: of the control plane an API server, a controller-manager and an update agent; of a worker its node agent.

with SelfUpdatingFleet(folder, first=payload) as fleet:
    fleet.offer("v0.2.0", payload)
    fleet.apply(fleet.plan("v0.2.0"))
    fleet.until(ended)
    fleet.workers[0].version()                   # v0.2.0
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import platform
import ssl
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.kit import kubeconfig
from tests.kit.etcd import EtcdServer
from tests.kit.payload_server import PayloadFile, PayloadServer
from tests.kit.processes import Process, free_port
from tests.kit.servers import Target

from pilothouse.app.tree_installation import install
from pilothouse.base.architectures import go_architecture
from pilothouse.supervise import container_records

Json = dict[str, Any]
GROUP = "/apis/autopilot.k0sproject.io/v1beta2"
PLATFORM = f"linux-{go_architecture(platform.machine())}"
REPOSITORY = Path(__file__).parents[2]
_PAUSE = 0.3
_RESTART = """#!/bin/sh
cd {folder} || exit 1
for service in apiserver manager; do
  before=$(cat $service.pid)
  kill "$before"
  while [ "$(cat $service.pid)" = "$before" ]; do sleep 0.1; done
done
"""


def packed(folder: Path, version: str) -> Path:
    """This Pilothouse under another version; its libraries are those of the test run."""
    output = folder / f"pilothouse-{version}.tar.gz"
    argv = [sys.executable, str(REPOSITORY / "scripts" / "payload"), "--linked", "--version", version]
    subprocess.run([*argv, "--output", str(output)], check=True, stdout=subprocess.DEVNULL)
    return output


def without_server(archive: Path) -> bytes:
    """The same payload, whose API server is started and never answers."""
    out = io.BytesIO()
    with tarfile.open(archive) as source, tarfile.open(fileobj=out, mode="w:gz") as changed:
        for entry in source:
            file = source.extractfile(entry) if entry.isreg() else None
            content = file.read() if file is not None else b""
            if entry.name == "bin/pilothouse":
                content = content.replace(b"\n", b'\n[ "$1" != apiserver ] || exec sleep infinity\n', 1)
                entry.size = len(content)
            changed.addfile(entry, io.BytesIO(content))
    return out.getvalue()


class Service:
    """A program that is started again whenever it ends, as a service manager does."""

    def __init__(self, name: str, argv: list[str], folder: Path) -> None:
        self.name = name
        self._argv = argv
        self._folder = folder
        self._stopped = threading.Event()
        self._process: Process | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join()

    def output(self) -> str:
        log = self._folder / f"{self.name}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._process = Process.start(self.name, self._argv, log=self._folder / f"{self.name}.log")
            draft = self._folder / f".{self.name}.pid"
            draft.write_text(str(self._process.pid))
            draft.replace(self._folder / f"{self.name}.pid")
            if self._stopped.is_set():
                self._process.kill()
            self._process.popen.wait()
            self._stopped.wait(_PAUSE)


class SelfUpdatingMachine:
    def __init__(self, fleet: SelfUpdatingFleet, name: str, *, controller: bool) -> None:
        self.name = name
        self.controller = controller
        self.folder = fleet.folder / name
        self.root = self.folder / "root"
        self.port = free_port()
        self.services: list[Service] = []

    @property
    def target(self) -> Target:
        """Its API server."""
        config = self.folder / "server" / "admin.kubeconfig"
        return Target(self.name, kubeconfig.read(config, unpack=self.folder / "pki"), config)

    def install(self, payload: Path) -> None:
        self.folder.mkdir(parents=True)
        asyncio.run(install(payload, self.root))
        profile: Json = {"tree": str(self.root), "healthFor": "500ms", "healthWithin": "60s"}
        if self.controller:
            profile["health"] = f"https://127.0.0.1:{self.port}/readyz"
            profile["restart"] = [str(self.folder / "restart-services")]
            (self.folder / "restart-services").write_text(_RESTART.format(folder=self.folder))
            (self.folder / "restart-services").chmod(0o755)
        (self.folder / "profile.yaml").write_text(json.dumps(profile))

    def run(self, name: str, command: str, *flags: str) -> Service:
        service = Service(name, [str(self.root / "bin" / "pilothouse"), command, *flags], self.folder)
        self.services.append(service)
        service.start()
        return service

    def version(self) -> str:
        """What the launcher starts."""
        return f"v{self.pilothouse('--version').split()[1]}"

    def pilothouse(self, *words: str) -> str:
        """What a command prints that ends by itself."""
        argv = [str(self.root / "bin" / "pilothouse"), *words]
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout

    def running(self) -> dict[str, str]:
        """The version of the tree that each service runs from."""
        found = {}
        for service in self.services:
            pid = (self.folder / f"{service.name}.pid").read_text()
            program = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")[0].decode()
            found[service.name] = Path(program).parents[1].name.partition("-")[0]
        return found

    def containers(self) -> dict[str, int]:
        """The processes of its pods' containers, by their folders."""
        found = {}
        for attempt in sorted((self.folder / "data" / "node" / "pods").glob("*/containers/*/[0-9]*")):
            state = container_records.read_state(attempt)
            if state is not None:
                found[str(attempt)] = state.pid
        return found


class SelfUpdatingFleet:
    def __init__(self, folder: Path, *, first: Path, controllers: int = 3, workers: int = 3) -> None:
        self.folder = folder
        self._first = first
        self._resources = contextlib.ExitStack()
        self.controllers = [
            SelfUpdatingMachine(self, f"controller{n}", controller=True) for n in range(controllers)
        ]
        self.workers = [SelfUpdatingMachine(self, f"worker{n}", controller=False) for n in range(workers)]
        self.history: list[Json] = []

    @property
    def machines(self) -> list[SelfUpdatingMachine]:
        return [*self.controllers, *self.workers]

    def __enter__(self) -> SelfUpdatingFleet:
        with contextlib.ExitStack() as resources:
            etcd = EtcdServer.start(self.folder / "etcd")
            resources.callback(etcd.stop)
            self.payloads = resources.enter_context(PayloadServer.running())
            resources.callback(self._stop)
            for machine in self.machines:
                machine.install(self._first)
            for machine in self.controllers:
                data = machine.folder / "server"
                flags = ["--data", str(data), "--listen", f"127.0.0.1:{machine.port}", "--store", "etcd"]
                machine.run("apiserver", "apiserver", *flags, "--etcd-servers", etcd.endpoint)
            for machine in self.controllers:
                self._wait_for_server(machine)
                self._run_control_host(machine)
            for machine, controller in zip(self.workers, self._in_turn(), strict=False):
                self._run_worker(machine, controller)
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def offer(self, version: str, content: bytes) -> None:
        self.payloads.files[f"/{version}"] = PayloadFile(content)

    def plan(self, version: str) -> Json:
        """A plan for all machines, which leaves pods where they are."""
        update = {
            "version": version,
            "platforms": {PLATFORM: {"url": self.payloads.url(f"/{version}")}},
            "targets": {"controllers": _named(self.controllers), "workers": _named(self.workers)},
        }
        return {
            "apiVersion": "autopilot.k0sproject.io/v1beta2",
            "kind": "Plan",
            "metadata": {"name": "autopilot"},
            "spec": {"id": version, "commands": [{"k0supdate": update}], "rollout": {"drain": {"strategy": "none"}}},
        }  # fmt: skip

    def send(self, method: str, path: str, body: Json | None = None) -> Json:
        """Ask the first API server that answers."""
        data = json.dumps(body).encode() if body is not None else None
        problem: OSError | None = None
        for machine in self.controllers:
            target = machine.target
            request = urllib.request.Request(
                target.url + path, data, {"Content-Type": "application/json"}, method=method
            )
            context: ssl.SSLContext = target.trust()
            try:
                with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                    return dict(json.loads(answer.read()))
            except urllib.error.HTTPError as refusal:
                raise AssertionError(f"{method} {path}: {refusal.code} {refusal.read().decode()}") from None
            except OSError as lost:
                problem = lost
        raise problem or AssertionError("there is no API server")

    def until(self, holds: Callable[[Json], bool], *, seconds: float = 300) -> Json:
        """The plan, once this holds. Its states on the way are in ``history``."""

        def look() -> Json | None:
            try:
                plan = self.send("GET", f"{GROUP}/plans/autopilot")
            except OSError:
                return None
            if not self.history or self.history[-1] != plan:
                self.history.append(plan)
            return plan if plan.get("status") and holds(plan) else None

        return dict(self.wait(look, "the plan", seconds))

    def wait(self, probe: Callable[[], Any], what: str, seconds: float = 120) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := probe()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s for {what}; {self.history[-1:]}")
            time.sleep(0.2)
        return found

    def _in_turn(self) -> Iterator[SelfUpdatingMachine]:
        while True:
            yield from self.controllers

    def _wait_for_server(self, machine: SelfUpdatingMachine) -> None:
        self.wait(lambda: "https://" in machine.services[0].output(), f"the API server of {machine.name}")

    def _run_control_host(self, machine: SelfUpdatingMachine) -> None:
        config = str(machine.folder / "server" / "controller-manager.kubeconfig")
        timing = ("lease-duration=6s", "renew-deadline=4s", "retry-period=500ms")
        flags = [f"--leader-elect-{each}" for each in timing]
        machine.run(
            "manager", "controller-manager", "--kubeconfig", config, "--control-node", machine.name, *flags
        )
        own = ["--mode", "controller", "--no-pods", "--node-ip", "127.0.0.1", "--api-port", str(machine.port)]
        self._join(machine, machine)
        self._run_agent(machine, *own)

    def _run_worker(self, machine: SelfUpdatingMachine, controller: SelfUpdatingMachine) -> None:
        self._join(machine, controller)
        self._run_agent(machine, "--listen", "127.0.0.1:0")

    def _join(self, machine: SelfUpdatingMachine, controller: SelfUpdatingMachine) -> None:
        """Get credentials for the machine, at an API server."""
        server = ("--kubeconfig", str(controller.folder / "server" / "admin.kubeconfig"))
        token = machine.pilothouse("token", "create", *server, "--node", machine.name).split()[0]
        data = str(machine.folder / "data")
        machine.pilothouse("join", token, "--no-run", "--name", machine.name, "--data", data)

    def _run_agent(self, machine: SelfUpdatingMachine, *flags: str) -> None:
        profile = str(machine.folder / "profile.yaml")
        data = str(machine.folder / "data")
        machine.run("agent", "node", "--data", data, "--update-profile", profile, *flags)

    def _stop(self) -> None:
        for machine in reversed(self.machines):
            for service in reversed(machine.services):
                service.stop()
        for machine in self.workers:
            for pid in machine.containers().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)


def _named(machines: list[SelfUpdatingMachine]) -> Json:
    names = [machine.name for machine in machines]
    return {"discovery": {"static": {"nodes": names}}, "limits": {"concurrent": 1}}
