"""What a pilot costs beside its database: memory, processor time while nothing happens, and time until the database is started.

python -m bench.pilot
python -m bench.pilot --seconds 300 --only redis

The pilots, their databases and the API server are real. The figures are those that each pilot shows to Prometheus.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from tests.kit import tools
from tests.kit.ordinary_user import ordinary_folder
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.pilots import cluster_tree, pilot_tree
from tests.kit.processes import Process, free_port
from tests.kit.real_elasticsearch import PilotedNode, addresses, unpacked
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ElasticsearchCluster, Pilot
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

AIMS = {"memory": 45.0, "idle": 0.5, "start": 300.0}
VERSION = "8.17.0"
SETTLED = 20.0
"""Seconds after it is ready: by then a pilot has given back what its start needed."""
PATIENCE = 300.0


@contextmanager
def redis(folder: Path, kubeconfig: Path) -> Iterator[str]:
    program, (address,), port = tools.find("redis-server"), addresses(1), free_port()
    argv = [sys.executable, "-m", "pilothouse", "pilot", "redis", "--name", "redis", "--namespace", "default"]
    argv += ["--address", address, "--data", str(folder / "redis"), "--kubeconfig", str(kubeconfig)]
    path = f"{program.parent}:{os.environ['PATH']}"
    env = {"PATH": path, "REDIS_PORT": str(port)}
    process = Process.start("the pilot of redis", argv, log=folder / "redis.log", env=env)
    try:
        yield address
    finally:
        process.end(seconds=30)


@contextmanager
def elasticsearch(folder: Path, kubeconfig: Path) -> Iterator[str]:
    home, (address,) = unpacked(VERSION, folder), addresses(1)
    node = PilotedNode("elasticsearch", address, home, folder, kubeconfig)
    node.start()
    try:
        yield address
    finally:
        node.end(seconds=60)


DATABASES = {"redis": redis, "elasticsearch": elasticsearch}


async def ask_for(api: Api, application: str) -> None:
    """Its Pilot, and the cluster of one that has to have one. Nobody looks after that: its only pilot leads, and does all that a leader does."""
    if application == "elasticsearch":
        cluster = await api.create(ElasticsearchCluster, cluster_tree("bench", nodes=1, version=VERSION))
        alone = {"cluster.name": cluster.name, "discovery.type": "single-node"}
        await api.create(Pilot, pilot_tree(cluster, application, alone))
    else:
        tree = {
            "apiVersion": Pilot.api_version,
            "kind": Pilot.kind,
            "metadata": {"name": application, "namespace": "default"},
            "spec": {"application": application},
        }
        await api.create(Pilot, tree)


def shown(address: str) -> dict[str, float]:
    """The figures of a pilot, by name."""
    with urllib.request.urlopen(f"http://{address}:12000/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(\w+)(?:\{.*?\})? (\S+)$", text, re.M)}


async def measure(folder: Path, server: PilothouseServer, application: str, seconds: float) -> list[str]:
    kubeconfig = folder / "kubeconfig"
    shutil.copy(server.target.kubeconfig, kubeconfig)
    kubeconfig.chmod(0o644)
    with ExitStack() as stack:
        address = stack.enter_context(DATABASES[application](folder, kubeconfig))
        async with HttpTransport.open(load(kubeconfig), SystemClock(), agent="bench") as transport:
            api = Api(transport, Random(1), manager="bench")
            await ask_for(api, application)

            async def ready() -> bool:
                return (await api.get(Pilot, application, "default")).is_true("Ready")

            await eventually(ready, seconds=PATIENCE)
            await asyncio.sleep(SETTLED)
            before = await asyncio.to_thread(shown, address)
            await asyncio.sleep(seconds)
            after = await asyncio.to_thread(shown, address)
    name = "process_cpu_seconds_total"
    idle = 100 * (after[name] - before[name]) / seconds
    resident = after["process_resident_memory_bytes"] / 1e6
    start = 1000 * after["pilothouse_pilot_start_seconds"]
    return [
        f"| {application} | memory, MB | {resident:.1f} | {_met(resident, 'memory')} |",
        f"| {application} | processor while idle, % | {idle:.2f} | {_met(idle, 'idle')} |",
        f"| {application} | Pilot found to exec, ms | {start:.0f} | {_met(start, 'start')} |",
    ]


def _met(figure: float, aim: str) -> str:
    return f"≤ {AIMS[aim]:g}, {'met' if figure <= AIMS[aim] else 'short'}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it is watched while idle")
    parser.add_argument("--only", choices=sorted(DATABASES), action="append")
    asked = parser.parse_args()
    print("| pilot of | measure | figure | aim |\n|---|---|---|---|")
    for application in asked.only or DATABASES:
        with ordinary_folder() as folder:
            folder.chmod(0o755)
            server = await asyncio.to_thread(PilothouseServer, folder / "server", "sqlite")
            try:
                for line in await measure(folder, server, application, asked.seconds):
                    print(line, flush=True)
            finally:
                server.close()


asyncio.run(main())
