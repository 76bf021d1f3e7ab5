"""What a plan over many workers costs the API server and the manager.

    python -m bench.plans [--workers 1000 5000] [--concurrent 5%]

Server (SQLite) and manager are processes of their own; the workers are modelled by this one, which takes each signalled Node
through its steps as its update agent would, at once: a turn begins with a read of the Plan, again after a pause while that
does not name the worker yet. There are no heartbeats, no pods and no audit log. The CPU time of both from the creation of the Plan
to its end, divided by the number of workers.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.kit.managers import started
from tests.kit.pilothouse_server import PilothouseServer

from bench.api.costs import cpu_seconds
from pilothouse.api.k0s.signals import CORDONING, DOWNLOADING, RESTART, UNCORDONING, read_signal
from pilothouse.api.kind_names import Node, Plan
from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.informer import Informer
from pilothouse.client.kubeconfig import load
from pilothouse.client.object_cache import CacheChange
from pilothouse.meta.errors import StatusError

_NEXT = {"": DOWNLOADING, "Downloading": CORDONING, "ApplyingUpdate": RESTART, "Restart": UNCORDONING}
_AGENTS = 32
_ORDER_BACKOFF = Backoff(first=0.25, factor=2.0, longest=30.0)
"""As an update agent waits between reads of a Plan that does not name it yet."""
_NO_AUDIT = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None}]}"
_WROTE = re.compile(r'verb="(POST|PUT|PATCH|APPLY|DELETE)".*code="20')
_LABELS = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


class Cost(NamedTuple):
    workers: int
    seconds: float
    server: float
    manager: float
    """CPU seconds of either."""
    writes: float
    """Requests that wrote something, of everybody."""
    reads: int
    """How often the workers have read the Plan."""

    @property
    def each(self) -> float:
        """Milliseconds of both, a worker."""
        return 1e3 * (self.server + self.manager) / self.workers


class Workers:
    """The update agents of all workers: each signal that is theirs to advance is advanced at once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._nodes = Informer(api, Node, Random(1), SystemClock())
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self.reads = 0

    async def run(self) -> None:
        self._nodes.subscribe(self._changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            for _ in range(_AGENTS):
                group.create_task(self._advance())

    def _changed(self, change: CacheChange) -> None:
        if change.new is not None:
            self._queue.put_nowait(change.new.name)

    async def _advance(self) -> None:
        while True:
            node = self._nodes.cache.get("", await self._queue.get())
            signal = read_signal(node.annotations) if node is not None else None
            if node is None or signal is None or (step := _NEXT.get(signal.step)) is None:
                continue
            if not signal.step:
                await self._read_plan(node)
            said = signal.advanced(step, signal.created).annotations()
            metadata = {"resourceVersion": node.resource_version, "annotations": said}
            try:
                await self._api.patch(Node, node.name, "", {"metadata": metadata})
            except StatusError as refusal:
                if refusal.code != 409:  # A later version is on its way here.
                    raise

    async def _read_plan(self, node: Object) -> None:
        """Read the Plan until it says that it is the worker's turn."""
        failures = 0
        while True:
            self.reads += 1
            if _is_on_turn(node.name, await self._api.fetch(Plan.path("", "autopilot"))):
                return
            failures += 1
            await asyncio.sleep(_ORDER_BACKOFF.after(failures))


def _is_on_turn(name: str, plan: bytes) -> bool:
    """Whether a Plan has a worker on its turn. To parse it thousands of times would take longer than all else."""
    at = plan.find(b'"name":"%b"' % name.encode())
    target = plan[plan.rfind(b"{", 0, at) : plan.find(b"}", at)]
    return at >= 0 and any(b'"state":"%b"' % state in target for state in (b"SignalPending", b"SignalSent"))


async def measured(folder: Path, workers: int, concurrent: str) -> Cost:
    quiet = folder / "no-audit.yaml"
    quiet.write_text(_NO_AUDIT)
    server = PilothouseServer(folder / "server", "sqlite", flags=("--audit-policy-file", str(quiet)))
    manager = started(server.target.kubeconfig, folder, "--no-leader-elect", "--controllers", "plans,drains")
    try:
        access = load(server.target.kubeconfig)
        async with HttpTransport.open(access, SystemClock(), agent="bench") as transport:
            api = Api(transport, Random(1), manager="bench")
            await _create_nodes(api, workers)
            agents = Workers(api)
            modelled = asyncio.create_task(agents.run())
            await asyncio.sleep(5)
            written = await _writes(api)
            before, began = (cpu_seconds(server.process.pid), cpu_seconds(manager.pid)), time.monotonic()
            await api.create(Plan, _plan(concurrent))
            plan = await _ended(api)
            after = (cpu_seconds(server.process.pid), cpu_seconds(manager.pid))
            modelled.cancel()
            if plan.status["state"] != "Completed":
                raise RuntimeError(f"the plan ended as {plan.status['state']}: {plan.status['conditions']}")
            seconds, written = time.monotonic() - began, await _writes(api) - written
            return Cost(workers, seconds, after[0] - before[0], after[1] - before[1], written, agents.reads)
    finally:
        manager.end(seconds=10)
        server.close()


async def _create_nodes(api: Api, workers: int) -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    limit = asyncio.Semaphore(_AGENTS)

    async def create(number: int) -> None:
        async with limit:
            name = f"w{number:05}"
            tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": _LABELS}}
            await api.create(Node, tree)
            await api.patch(Node, name, "", ready, subresource="status")

    await asyncio.gather(*map(create, range(workers)))


async def _writes(api: Api) -> float:
    """How many requests have written something so far."""
    text = (await api.fetch("/metrics", accept="text/plain")).decode()
    return sum(
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("apiserver_request_total{") and _WROTE.search(line)
    )


async def _ended(api: Api) -> Object:
    while True:
        await asyncio.sleep(2)
        plan = await api.get(Plan, "autopilot")
        if plan.status.get("state") not in (None, "", "Schedulable", "SchedulableWait"):
            return plan


def _plan(concurrent: str) -> dict[str, object]:
    update = {
        "version": "v1.32.0",
        "forceupdate": True,
        "platforms": {"linux-amd64": {"url": "http://127.0.0.1:1/k0s"}},
        "targets": {"workers": {"discovery": {"selector": {}}, "limits": {"concurrent": concurrent}}},
    }
    metadata = {"name": "autopilot"}
    return {
        "apiVersion": Plan.api_version,
        "kind": Plan.kind,
        "metadata": metadata,
        "spec": {"commands": [{"k0supdate": update}]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--concurrent", default="5%")
    arguments = parser.parse_args()
    print(
        f"{'workers':>8} {'s':>7} {'server CPU s':>13} {'manager CPU s':>14} {'writes each':>12} {'reads each':>11}"
        f" {'ms a worker':>12}"
    )
    first = 0.0
    for workers in arguments.workers:
        with tempfile.TemporaryDirectory() as folder:
            cost = asyncio.run(measured(Path(folder), workers, arguments.concurrent))
        first = first or cost.each
        print(
            f"{cost.workers:8} {cost.seconds:7.1f} {cost.server:13.1f} {cost.manager:14.1f}"
            f" {cost.writes / cost.workers:12.1f} {cost.reads / cost.workers:11.1f} {cost.each:12.2f}   {cost.each / first:.2f}x"
        )


if __name__ == "__main__":
    main()
