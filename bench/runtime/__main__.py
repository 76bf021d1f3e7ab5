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

from tests.kit.ours import PilothouseServer
from tests.kit.processes import Process
from tests.kit.servers import Server

from bench.runtime import simulating, standing
from bench.runtime.widgets import Watching, define, give
from pilothouse.base.clock import SystemClock
from pilothouse.client.http import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.rest import Api

_KOPF = Path(__file__).with_name("kopf_operator.py")


def start(name: str, server: Server, folder: Path) -> Process:
    config = str(server.target.kubeconfig)
    argv = {
        "ours": [sys.executable, "-m", "bench.runtime.our_operator", config],
        "kopf": [sys.executable, "-m", "kopf", "run", "--standalone", "-A", str(_KOPF)],
    }[name]
    env = {**os.environ, "KUBECONFIG": config, "HOME": str(folder)}
    return Process.start(name, argv, log=folder / f"{name}.log", env=env)


async def speed(server: Server, folder: Path, widgets: int, rounds: int) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {"ours": [], "kopf": []}
    async with HttpTransport.open(load(server.target.kubeconfig), SystemClock(), agent="bench") as transport:
        api = Api(transport, Random(1), manager="bench")
        await define(api)
        value = 0
        for _ in range(rounds):
            for name in rates:
                value += 1
                await give(api, widgets, value)
                process = start(name, server, folder)
                try:
                    rates[name].append(await Watching(server.target.kubeconfig).rate(widgets))
                finally:
                    process.end()
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.runtime")
    parser.add_argument("--widgets", type=int, default=500)
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
                rates = asyncio.run(speed(server, folder, chosen.widgets, chosen.rounds))
            finally:
                server.close()
            for who, found in rates.items():
                print(
                    f"{statistics.median(found):10.1f} reconciles/s, {who} ({', '.join(f'{r:.1f}' for r in found)})"
                )
            print(f"{statistics.median(rates['ours']) / statistics.median(rates['kopf']):10.1f} times kopf")
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
