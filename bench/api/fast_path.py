"""What the fast path saves: CPU time of the server a request, with it, for reads alone, and without.

    python -m bench.api.fast_path [--rounds 5] [--requests 4000] [--widgets 1000] [--only get|patch|reconcile]

The variants are servers on SQLite that run at the same time and take turns, in an order that changes from round to round.
*get* and *patch* come from 16 connections of this process that are kept alive; *reconcile* is the operator of
`bench.runtime`, whose server's time is counted for each status that it writes. CPU time is the scheduler's count of
nanoseconds, which is much the same on a busy machine; the figures are medians: of the rounds, and of what a variant saves
beside the parser in the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tests.kit.processes import Process

from bench.api.access import Access, unverified
from bench.api.contenders import Pilothouse
from bench.api.filling import fill
from bench.api.objects import KINDS, numbered
from bench.runtime.widgets import Watching, define, give
from pilothouse.apiserver.server.fast_path import FastPath
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

VARIANTS = ("fast path", "reads only", "parser only")
LOADS = ("get", "patch", "reconcile")
CLIENTS = 16
OBJECTS = 200
NAMESPACE = "bench-fast-path"
KIND = KINDS["configmaps"]
MERGE = "application/merge-patch+json"


def serve(variant: str) -> None:
    """Be an API server of this variant; its flags are the rest of the command line."""
    from pilothouse.cli import main as pilothouse

    if variant != "fast path":
        FastPath.open = lambda self, data: None  # type: ignore[method-assign]  # Turned off.
    if variant == "parser only":
        FastPath.reply = lambda self, data, certified, peer: None  # type: ignore[method-assign]  # Turned off.
    pilothouse()


class Variant(Pilothouse):
    """A server of a variant."""

    def __init__(self, folder: Path, variant: str) -> None:
        self.variant = variant
        self.value = 0
        super().__init__(folder, "sqlite")

    def command(self) -> list[str]:
        program = f"from bench.api.fast_path import serve; serve({self.variant!r})"
        return [sys.executable, "-c", program, *super().command()[3:]]

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "data" / "admin.kubeconfig"

    def cpu(self) -> float:
        """Microseconds that its threads have run."""
        tasks = Path(f"/proc/{self.pids()[0]}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


async def pump(access: Access, make: Callable[[int], bytes], count: int) -> None:
    """Send so many requests, one after the other on each connection."""
    numbers = iter(range(count))

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", access.port, ssl=unverified())
        for number in numbers:
            writer.write(make(number))
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise ValueError(f"answered {head!r}")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
        writer.close()

    await asyncio.gather(*(work() for _ in range(CLIENTS)))


def requests(server: Variant, load: str, count: int) -> float:
    """Microseconds of CPU a request."""
    serial = time.time_ns() // 1000 % 10**8

    def make(number: int) -> bytes:
        path = KIND.at(NAMESPACE, numbered(number % OBJECTS))
        if load == "get":
            return server.access.request("GET", path)
        return server.access.request("PATCH", path, KIND.patch(f"{serial}-{number:08}"), type=MERGE)

    asyncio.run(pump(server.access, make, CLIENTS * 8))
    before = server.cpu()
    asyncio.run(pump(server.access, make, count))
    return (server.cpu() - before) / count


async def reconciles(server: Variant, widgets: int) -> float:
    """Microseconds of CPU a status that the operator writes."""
    config = server.kubeconfig
    server.value += 1
    async with HttpTransport.open(load(config), SystemClock(), agent="bench") as transport:
        api = Api(transport, Random(1), manager="bench")
        await define(api)
        await give(api, widgets, server.value)
    before: list[float] = []
    argv = [sys.executable, "-m", "bench.runtime.our_operator", str(config)]
    operator = Process.start("operator", argv, log=server.folder / "operator.log", env=dict(os.environ))
    try:
        await Watching(config).rate(widgets, lambda: before.append(server.cpu()))
        return (server.cpu() - before[0]) / widgets
    finally:
        operator.end()


def measure(servers: list[Variant], load: str, rounds: int, count: int, widgets: int) -> None:
    found: dict[str, list[float]] = {server.variant: [] for server in servers}
    for number in range(rounds):
        turn = number % len(servers)
        for server in servers[turn:] + servers[:turn]:
            if load == "reconcile":
                found[server.variant].append(asyncio.run(reconciles(server, widgets)))
            else:
                found[server.variant].append(requests(server, load, count))
    for variant, figures in found.items():
        pairs = zip(figures, found["parser only"], strict=True)
        saved = 1 - statistics.median(figure / parsed for figure, parsed in pairs)
        each = " ".join(f"{figure:.0f}" for figure in figures)
        print(
            f"{load:10} {variant:12} {statistics.median(figures):6.0f} µs, saves {saved:4.0%}   ({each})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.api.fast_path", description="What the fast path saves."
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--widgets", type=int, default=1000)
    parser.add_argument("--only", choices=LOADS, action="append")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name, ExitStack() as stack:
        servers = []
        for variant in VARIANTS:
            server = Variant(Path(name) / variant.replace(" ", "-"), variant)
            stack.enter_context(server)
            asyncio.run(fill(server.access, KIND, NAMESPACE, count=OBJECTS))
            servers.append(server)
        for each in chosen.only or LOADS:
            measure(servers, each, chosen.rounds, chosen.requests, chosen.widgets)


if __name__ == "__main__":
    main()
