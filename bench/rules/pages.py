"""What it takes to read the page of a node with 10,000 volumes.

    python -m bench.rules.pages [--volumes 10000]

The page is what a node of ours reports; the rules ask for the usage, once by kubelet's names and once by the volume's. Seconds by the
clock and of processors from the request to the answer of both expressions: for the first page, of which every series is new, and for
later ones with other values.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader
from pilothouse.node.volumes.volume_usage import MeasuredUsage, metrics
from pilothouse.rules.providers.embedded import EmbeddedProvider
from pilothouse.rules.providers.scrape_targets import ScrapeTargets
from pilothouse.rules.samples import QueryFailure

NODE = "n1"
MOST_SECONDS = 0.5
_GIB = 2**30
_PAGES = 5
_EXPRESSIONS = (
    "100 * kubelet_volume_stats_used_bytes / kubelet_volume_stats_capacity_bytes",
    "100 * (px_volume_usage_bytes / px_volume_capacity_bytes)",
)


class NodePage:
    """An API server that leads to one node, whose volumes fill."""

    def __init__(self, volumes: int) -> None:
        self._volumes = volumes
        self._asked = 0
        self._pages: list[ClientResponse] = []

    async def request(self, call: ClientRequest) -> ClientResponse:
        self._asked += 1
        return self._pages[self._asked - 1]

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        raise NotImplementedError

    def prepare(self, pages: int) -> int:
        """Make the pages, which is the node's work and not measured; the bytes of one."""
        self._pages = [ClientResponse(200, {}, self._page(number)) for number in range(pages)]
        return len(self._pages[0].body)

    def _page(self, number: int) -> bytes:
        used = 2 * _GIB + number * 4096
        usage = (
            MeasuredUsage(
                f"ns-{each % 100}", f"data-{each}", 8 * _GIB, 8 * _GIB - used, used, 1000, 900, 100,
                f"pvc-{each}", 8 * _GIB,
            )
            for each in range(self._volumes)
        )  # fmt: skip
        return "\n".join([*metrics(usage), ""]).encode()


def _claim(number: int) -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"data-{number}",
                "namespace": f"ns-{number % 100}",
                "uid": f"c{number}",
                "resourceVersion": "1",
            },
            "spec": {"volumeName": f"pvc-{number}"},
            "status": {"phase": "Bound"},
        }
    )


def _pod(number: int) -> Object:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"db-{number}",
                "namespace": f"ns-{number % 100}",
                "uid": f"p{number}",
                "resourceVersion": "1",
            },
            "spec": {"nodeName": NODE, "volumes": [claim]},
            "status": {"phase": "Running"},
        }
    )


class Reading(msgspec.Struct, frozen=True):
    seconds: float
    cpu: float


async def measure(volumes: int) -> tuple[int, list[Reading]]:
    node = Object.of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    pods, claims = [_pod(number) for number in range(volumes)], [_claim(number) for number in range(volumes)]
    transport = NodePage(volumes)
    size = transport.prepare(_PAGES)
    targets = ScrapeTargets(lambda: (node,), lambda: pods, lambda: claims)
    provider = EmbeddedProvider(transport, targets, SystemClock())
    provider.keep(_EXPRESSIONS)
    readings = []
    for _ in range(_PAGES):
        began, worked = time.monotonic(), time.process_time()
        await provider.scrape(0.0)
        answers = await provider.query(_EXPRESSIONS, time.time())
        readings.append(Reading(time.monotonic() - began, time.process_time() - worked))
        _check(list(answers.values()), volumes)
    await provider.close()
    return size, readings


def _check(answers: Sequence[object], volumes: int) -> None:
    for answer in answers:
        if isinstance(answer, QueryFailure) or not isinstance(answer, Sequence) or len(answer) != volumes:
            raise SystemExit(f"not every volume is in the answer: {answer!r:.200}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--volumes", type=int, default=10_000)
    volumes = parser.parse_args().volumes
    size, (first, *later) = asyncio.run(measure(volumes))
    print(f"{volumes} volumes, {size / 2**20:.1f} MiB, load {os.getloadavg()[0]:.1f}")
    print(f"first page: {first.seconds:.2f} s, {first.cpu:.2f} s CPU")
    seconds, cpu = (
        statistics.median(each) for each in zip(*map(msgspec.structs.astuple, later), strict=True)
    )
    print(f"later pages: {seconds:.2f} s, {cpu:.2f} s CPU, wanted <= {MOST_SECONDS:g} s")


if __name__ == "__main__":
    main()
