"""The simulated node at a live server, ours or a real Kubernetes: pods become ready, and nothing runs.

python -m pilothouse.sim.live_node --kubeconfig admin.kubeconfig --name n1 --name n2

async with joined(api, "n1", "n2"):          # in a test
    ...
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.sim.simulated_node import NodeTiming, SimulatedNode

PROMPT = NodeTiming(starting=(0.05, 0.2), stopping=(0.05, 0.2))
"""Short times, for tests in real time."""


@asynccontextmanager
async def joined(
    api: Api, *names: str, timing: NodeTiming = PROMPT, takes_all: bool = False
) -> AsyncIterator[list[SimulatedNode]]:
    """Run these nodes within the context; they stay registered. ``takes_all``: see ``SimulatedNode``."""
    clock = SystemClock()
    nodes = [
        SimulatedNode(
            api, name, clock, random.Random(name), timing, subnet=f"10.88.{number}", takes_all=takes_all
        )
        for number, name in enumerate(names)
    ]
    tasks = [asyncio.create_task(node.run(), name=node.name) for node in nodes]
    try:
        yield nodes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _join(kubeconfig: Path, names: list[str]) -> None:
    async with HttpTransport.open(
        load(kubeconfig), SystemClock(), agent="pilothouse-model-node"
    ) as transport:
        api = Api(transport, random.Random(), manager="pilothouse-model-node")
        await api.version()
        async with joined(api, *names):
            print(f"{', '.join(names)}: joined; pods become ready, and nothing runs", flush=True)
            await asyncio.get_running_loop().create_future()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m pilothouse.sim.live_node", description="A simulated node at a live server."
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--name", action="append", default=[], help="the name of a node; may be repeated")
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_join(given.kubeconfig, given.name or ["model-node"]))


if __name__ == "__main__":
    main()
