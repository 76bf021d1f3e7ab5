"""A control plane and machines that joined it: three etcd members, two API servers, a controller-manager, and nodes in
network namespaces of their own.

    with plane(folder, machines=3) as fleet:
        async with fleet.api() as api: …
        fleet.nodes[0].machine.cut_off()
        fleet.said(fleet.nodes[1], address, "who")        # asked of a pod, from that machine

Pods run ``TALKER``, a program of this module: it listens at the pod's address, says who it is, and asks others on demand, so that a
test hears what a name or an address leads to from inside a pod.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.kit import managers
from tests.kit.etcd import EtcdCluster
from tests.kit.network_namespaces import Lan, Machine, machines
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process

from pilothouse.api.objects import Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

PORT = 7000
TALKER = """
import json, os, signal, socket, socketserver, ssl, sys, urllib.request

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # The first process of a namespace has no default for it.

def ask(host, port, line):
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(line.encode() + b"\\n")
        return connection.makefile().readline().strip()

def server_version():
    server = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
    mounted = "/var/run/secrets/kubernetes.io/serviceaccount/"
    request = urllib.request.Request(server + "/version")
    request.add_header("Authorization", "Bearer " + open(mounted + "token").read())
    trust = ssl.create_default_context(cafile=mounted + "ca.crt")
    with urllib.request.urlopen(request, context=trust, timeout=5) as answer:
        return json.load(answer)["gitVersion"]

class Talk(socketserver.StreamRequestHandler):
    def handle(self):
        words = self.rfile.readline().decode().split()
        try:
            if words[0] == "who":
                said = os.environ["POD_NAME"] + " " + os.environ["POD_UID"]
            elif words[0] == "ask":
                said = ask(words[1], words[2], "who")
            elif words[0] == "remember":
                with open("/data/word", "w") as file:
                    file.write(words[1])
                said = words[1]
            elif words[0] == "recall":
                said = open("/data/word").read()
            elif words[0] == "server":
                said = server_version()
            else:
                found = socket.getaddrinfo(words[1], None, socket.AF_INET, socket.SOCK_STREAM)
                said = " ".join(sorted({each[4][0] for each in found}))
        except OSError as problem:
            said = f"failed: {type(problem).__name__}"
        self.wfile.write(said.encode() + b"\\n")

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

Server((os.environ["POD_IP"], int(sys.argv[1])), Talk).serve_forever()
"""
_ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as connection:
    connection.sendall(sys.argv[3].encode() + b"\\n")
    print(connection.makefile().readline().strip())
"""


def talker(**more: object) -> Tree:
    """A pod's spec with that program, which is ready once it listens."""
    fields = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}
    probe = {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 3}
    return {
        "terminationGracePeriodSeconds": 2,
        "containers": [
            {
                "name": "talker",
                "image": "host/python3",
                "command": [sys.executable, "-u", "-c", TALKER, str(PORT)],
                "env": [
                    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                    for name, path in fields.items()
                ],
                "ports": [{"name": "talk", "containerPort": PORT}],
                "readinessProbe": probe,
            }
        ],
        **more,
    }


def asked(machine: Machine, address: str, line: str) -> str:
    """What the program of a pod at this address answers to a machine; empty if nobody does."""
    try:
        return machine.run(sys.executable, "-c", _ASK, address, str(PORT), line).strip()
    except subprocess.CalledProcessError:
        return ""


@dataclass
class FleetNode:
    """An agent on a machine."""

    machine: Machine
    range: str
    data: Path
    process: Process | None = None

    @property
    def name(self) -> str:
        return self.machine.name

    def join(self, kubeconfig: Path) -> None:
        """With a token of its own."""
        token = _pilothouse("token", "create", "--kubeconfig", str(kubeconfig)).split()[0]
        words = ("join", token, "--data", str(self.data), "--name", self.name, "--no-run")
        self.machine.run(sys.executable, "-m", "pilothouse", *words, seconds=60)

    def start(self, *flags: str) -> None:
        argv = [*self.machine.inside, sys.executable, "-m", "pilothouse", "node", "--data", str(self.data)]
        argv += ["--listen", f"{self.machine.address}:10250", "--pod-cidr", self.range, *flags]
        self.process = Process.start(f"node {self.name}", argv, log=self.data.parent / f"{self.name}.log")

    def talkers(self) -> list[int]:
        """The programs of pods that run on this machine, by their process ids."""
        space = Path(f"/proc/{self.machine.holding.pid}/ns/net").readlink()
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdigit() and (folder / "ns" / "net").readlink() == space:
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    if TALKER.encode() in words and words[0] == sys.executable.encode():
                        found.append(int(folder.name))
        return found


@dataclass
class Plane:
    """What was started."""

    lan: Lan
    etcd: EtcdCluster
    servers: list[PilothouseServer]
    nodes: list[FleetNode]

    @contextlib.asynccontextmanager
    async def api(self, number: int = 0) -> AsyncIterator[Api]:
        """As an administrator, at one of the servers."""
        access = load(self.servers[number].target.kubeconfig)
        async with HttpTransport.open(access, SystemClock(), agent="pilothouse-test") as transport:
            yield Api(transport, Random(1), manager="test")

    def said(self, node: FleetNode, address: str, line: str) -> str:
        """What a pod answers when it is asked from a node's machine; empty if nobody does."""
        return asked(node.machine, address, line)


@contextlib.contextmanager
def plane(folder: Path, *flags: str, count: int = 3) -> Iterator[Plane]:
    """All of it, each node joined by a token of its own, at one server or the other, and started with these flags."""
    with machines(count) as lan, contextlib.ExitStack() as ending:
        etcd = EtcdCluster.start(folder / "etcd", members=3)
        ending.callback(etcd.stop)
        one = PilothouseServer(folder / "one", "etcd", etcd=etcd, host=lan.address)
        ending.callback(one.close)
        two = one.beside(folder / "two")
        ending.callback(two.close)
        manager = managers.started(one.target.kubeconfig, folder / "manager")
        ending.callback(manager.end)
        nodes = []
        for number, machine in enumerate(lan, start=1):
            node = FleetNode(machine, f"10.44.{number}.0/24", folder / machine.name / "data")
            node.join((one, two)[number % 2].target.kubeconfig)
            nodes.append(node)
        ending.callback(end_all, nodes)
        for node in nodes:
            node.start("--stop-pods", *flags)
        yield Plane(lan, etcd, [one, two], nodes)


def _pilothouse(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pilothouse", *words], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def end_all(nodes: list[FleetNode]) -> None:
    """End the agents; nothing that they have started may be left."""
    for node in nodes:
        if node.process is not None:
            node.process.end(seconds=30)
    left = {node.name: node.talkers() for node in nodes if node.talkers()}
    for pid in (pid for pids in left.values() for pid in pids):
        os.kill(pid, signal.SIGKILL)
    for node in nodes:
        # What pods keep in memory outlives the agent by intent.
        mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for place in sorted((each for each in mounted if each.startswith(f"{node.data}/")), reverse=True):
            subprocess.run(["umount", place], check=True, timeout=20)
    assert not left, f"programs of pods were still there: {left}"
