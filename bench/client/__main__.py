"""What a cache of ten thousand pods takes: time until it is ready, memory, and CPU while nothing changes.

    python -m bench.client [--target sqlite|memory|etcd|kube] [--pods 10000]

The cache is in a process of its own, beside the server; on two cores they share them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from tests.kit import kube, pilothouse_server
from tests.kit.servers import Server

from pilothouse.api.kind_names import Pod, ServiceAccount
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

AT_ONCE = 32


def pod(number: int) -> dict[str, Any]:
    """A pod of about 3 KB, as it is stored."""
    containers = [
        {
            "name": f"container-{n}",
            "image": "registry.example.io/team/web:1.2.3",
            "env": [{"name": f"SETTING_{n}_{m}", "value": "value of the setting"} for m in range(10)],
            "ports": [{"containerPort": 8080 + n}],
        }
        for n in range(2)
    ]
    labels = {"app": "web", "number": str(number)}
    return {
        "metadata": {"name": f"pod-{number}", "namespace": "default", "labels": labels},
        "spec": {"containers": containers, "automountServiceAccountToken": False},
    }


def start(target: str, folder: Path) -> Server:
    return (
        kube.KubeServer(folder) if target == kube.NAME else pilothouse_server.PilothouseServer(folder, target)
    )


async def fill(server: Server, pods: int) -> None:
    async with HttpTransport.open(load(server.target.kubeconfig), SystemClock(), agent="bench") as transport:
        api = Api(transport, Random(1), manager="bench")
        account = {"metadata": {"name": "default", "namespace": "default"}}
        await api.apply(ServiceAccount, account, force=True)
        numbers = iter(range(pods))

        async def create() -> None:
            for number in numbers:
                await api.create(Pod, pod(number), deadline=120)

        await asyncio.gather(*(create() for _ in range(AT_ONCE)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.client")
    parser.add_argument("--target", choices=[*pilothouse_server.STORES, kube.NAME], default="sqlite")
    parser.add_argument("--pods", type=int, default=10_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = start(chosen.target, Path(folder))
        try:
            asyncio.run(fill(server, chosen.pods))
            argv = [sys.executable, "-m", "bench.client.caching", str(server.target.kubeconfig)]
            ended = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300)
        finally:
            server.close()
    for name, figure in json.loads(ended.stdout).items():
        print(f"{figure:10.2f} {name}")


if __name__ == "__main__":
    main()
