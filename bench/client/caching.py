"""A process that keeps a cache of all pods, and says what that took: `python -m bench.client.caching KUBECONFIG`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from random import Random

from bench.api.memory import held
from pilothouse.api.kind_names import Pod
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.informer import Informer
from pilothouse.client.kubeconfig import load

QUIET = 5.0


def megabytes() -> float:
    return held([os.getpid()]).rss / 2**20


async def main(kubeconfig: str) -> None:
    figures = {"MB at the start": megabytes()}
    clock = SystemClock()
    async with HttpTransport.open(load(Path(kubeconfig)), clock, agent="bench") as transport:
        api = Api(transport, Random(1), manager="bench")
        await api.version()
        for name, streaming in (("streamed", True), ("listed", False)):
            informer = Informer(api, Pod, Random(1), clock, streaming=streaming)
            begun, used = time.perf_counter(), time.process_time()
            running = asyncio.create_task(informer.run())
            await informer.synced()
            figures[f"s until {len(informer.cache)} pods were {name}"] = time.perf_counter() - begun
            figures[f"s of CPU, {name}"] = time.process_time() - used
            figures[f"MB with all {name}"] = megabytes()
            for pod in informer.cache.list():
                pod.at("spec", "nodeName")
            figures[f"MB with all {name} and looked into"] = megabytes()
            used = time.process_time()
            await asyncio.sleep(QUIET)
            figures["% of CPU when nothing changes"] = 100 * (time.process_time() - used) / QUIET
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
