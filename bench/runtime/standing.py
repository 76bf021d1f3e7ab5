"""A whole controller-manager beside ten thousand pods: until it is ready, its memory, and what it does when nothing changes."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

from tests.kit.managers import shown, started
from tests.kit.servers import Server

from bench.client.__main__ import pod
from pilothouse.api.kind_names import Pod, ServiceAccount
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.runtime.decision_log import LONGEST_PAUSE

_AT_ONCE = 32
_LEASES = ',resource="leases"'


async def fill(server: Server, pods: int) -> None:
    """Pods that no scheduler of ours looks after."""
    async with HttpTransport.open(load(server.target.kubeconfig), SystemClock(), agent="bench") as transport:
        api = Api(transport, Random(1), manager="bench")
        await api.apply(ServiceAccount, {"metadata": {"name": "default", "namespace": "default"}}, force=True)
        numbers = iter(range(pods))

        async def create() -> None:
            for number in numbers:
                tree: dict[str, Any] = pod(number)
                tree["spec"]["schedulerName"] = "nobody"
                await api.create(Pod, tree, deadline=120)

        await asyncio.gather(*(create() for _ in range(_AT_ONCE)))


def measured(server: Server, folder: Path, *, idle: float) -> dict[str, float]:
    """The figures of one manager; ``idle`` is for how many seconds it is left alone."""
    began = time.monotonic()
    process = started(server.target.kubeconfig, folder)
    spoke = time.monotonic()
    try:
        while shown(process, "/readyz")[0] != 200:
            time.sleep(0.02)
        ready = time.monotonic()
        _settle(process, server)
        figures = {
            "s from the start of the process until it says where its pages are": spoke - began,
            "s from then until its caches are filled": ready - spoke,
            "MB resident once all is decided": _figure(process, "process_resident_memory_bytes") / 1e6,
        }
        seconds, before = _figure(process, "process_cpu_seconds_total"), _requests(server)
        time.sleep(idle)
        used = _figure(process, "process_cpu_seconds_total") - seconds
        asked = {name: count - before.get(name, 0) for name, count in _requests(server).items()}
        leases = sum(count for name, count in asked.items() if _LEASES in name)
        told = {name: count for name, count in asked.items() if count and _LEASES not in name}
        figures["% CPU while nothing changes"] = 100 * used / idle
        figures[f"requests in {idle:g} s about leases"] = leases
        figures[f"other requests in {idle:g} s {told or ''}"] = sum(told.values())
        return figures
    finally:
        process.end()


def _settle(process: Any, server: Server) -> None:
    """Wait until nothing is left to be decided, and nothing has been written down for longer than it is put off."""
    while sum(_values(shown(process, "/metrics")[1], "pilothouse_queue_depth")):
        time.sleep(0.5)
    before: dict[str, float] | None = None
    while (found := _others(server)) != before:
        before = found
        time.sleep(2 * LONGEST_PAUSE)


def _others(server: Server) -> dict[str, float]:
    """Its count of requests that are not about leases."""
    return {name: count for name, count in _requests(server).items() if _LEASES not in name}


def _figure(process: Any, name: str) -> float:
    [value] = _values(shown(process, "/metrics")[1], name)
    return value


def _values(text: str, name: str) -> list[float]:
    return [float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M)]


def _requests(server: Server) -> dict[str, float]:
    """The server's count of requests, by what they were for; watches count when they end, scrapes are left out."""
    context: ssl.SSLContext = server.target.trust()
    with urllib.request.urlopen(f"{server.target.url}/metrics", context=context, timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r"^apiserver_request_total(\{.*\}) (\S+)$", text, re.M)
    return {labels: float(value) for labels, value in found if ',resource=""' not in labels}
