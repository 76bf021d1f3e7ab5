"""How fast decisions become acts, beside kopf, and what a manager takes when it stands.

    python -m bench.runtime [--widgets 500] [--rounds 3] [--pods 10000] [--idle 30] [--only speed|standing|simulating]

*Speed*: widgets are there, an operator starts, and each widget's status comes to show its value; counted from the first to
the last, as a watch sees them. The two take turns on one server (SQLite). Ours also writes a record of each decision.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process
from tests.kit.servers import Server

from bench.api.costs import cpu_seconds
from bench.runtime import simulating, standing
from bench.runtime.widgets import Watching, define, give
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

_KOPF = Path(__file__).with_name("kopf_operator.py")


def start(name: str, server: Server, folder: Path) -> Process:
    config = str(server.target.kubeconfig)
    argv = {
        "ours": [sys.executable, "-m", "bench.runtime.our_operator", config],
        "kopf": [sys.executable, "-m", "kopf", "run", "--standalone", "-A", str(_KOPF)],
    }[name]
    env = {**os.environ, "KUBECONFIG": config, "HOME": str(folder)}
    return Process.start(name, argv, log=folder / f"{name}.log", env=env)


class Round(NamedTuple):
    """What came of one operator's turn."""

    rate: float
    """Statuses a second."""
    operator: float
    server: float
    """Microseconds of CPU for each of them, of either process."""


async def turn(server: Server, process: Process, widgets: int) -> Round:
    """Have an operator do its part, and measure from its first status on."""
    before: list[float] = []

    def begun() -> None:
        before.extend((cpu_seconds(process.pid), cpu_seconds(server.process.pid)))

    rate = await Watching(server.target.kubeconfig).rate(widgets, begun)
    after = (cpu_seconds(process.pid), cpu_seconds(server.process.pid))
    operator, served = (1e6 * (end - start) / widgets for start, end in zip(before, after, strict=True))
    return Round(rate, operator, served)


async def speed(server: Server, folder: Path, widgets: int, rounds: int) -> dict[str, list[Round]]:
    found: dict[str, list[Round]] = {"ours": [], "kopf": []}
    async with HttpTransport.open(load(server.target.kubeconfig), SystemClock(), agent="bench") as transport:
        api = Api(transport, Random(1), manager="bench")
        await define(api)
        value = 0
        for _ in range(rounds):
            for name in found:
                value += 1
                await give(api, widgets, value)
                process = start(name, server, folder)
                try:
                    found[name].append(await turn(server, process, widgets))
                finally:
                    process.end()
    return found


def tell(found: dict[str, list[Round]]) -> None:
    medians = {}
    for who, rounds in found.items():
        medians[who] = Round(*(statistics.median(figures) for figures in zip(*rounds, strict=True)))
        rate, operator, served = medians[who]
        each = ", ".join(f"{one.rate:.0f}" for one in rounds)
        print(
            f"{rate:10.0f} reconciles/s, {who} ({each}); CPU {operator:.0f} µs each, {served:.0f} µs of the server's"
        )
    ours, kopf = medians["ours"], medians["kopf"]
    print(f"{ours.rate / kopf.rate:10.1f} times kopf; {kopf.operator / ours.operator:.1f} times less CPU")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.runtime")
    parser.add_argument("--widgets", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=30.0)
    parser.add_argument("--only", choices=["speed", "standing", "simulating"], default="")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.only in ("", "speed"):
            server = PilothouseServer(folder / "speed", "sqlite")
            try:
                found = asyncio.run(speed(server, folder, chosen.widgets, chosen.rounds))
            finally:
                server.close()
            tell(found)
        if chosen.only in ("", "standing"):
            server = PilothouseServer(folder / "standing", "sqlite")
            try:
                asyncio.run(standing.fill(server, chosen.pods))
                for what, figure in standing.measured(server, folder, idle=chosen.idle).items():
                    print(f"{figure:10.2f} {what}")
            finally:
                server.close()
        if chosen.only in ("", "simulating"):
            for what, figure in simulating.measured().items():
                print(f"{figure:10.0f} {what}")


if __name__ == "__main__":
    main()
