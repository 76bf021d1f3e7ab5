"""What a node's page of metrics costs: its node, and the manager that reads it.

    python -m bench.node.pages [--volumes 10000] [--pods 250] [--rounds 9]

Three pages take turns, each with and without what is compared: all volumes with ``pilothouse_volume_info`` and without it;
pods without volumes that have no log patterns, with counters of log matches and without them. Then a pass of the counters over
such pods, and the page of all volumes as the embedded provider reads it, for the first time and again. CPU seconds, medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bench.rules.volumes import claim
from pilothouse.api.local_volumes import LOOP
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.aliases import ALIASES
from pilothouse.base.clock import SystemClock
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader
from pilothouse.node.containers.container_index import ContainerIndex, InstanceSource
from pilothouse.node.interfaces import ContainerCgroup
from pilothouse.node.metrics.log_matches import LogMatches
from pilothouse.node.metrics.metrics_pages import MetricsPages
from pilothouse.node.volumes.claim_volumes import VolumeInUse
from pilothouse.node.volumes.storage_pools import StoragePools
from pilothouse.node.volumes.volume_usage import MeasuredUsage
from pilothouse.rules.providers.embedded import EmbeddedProvider
from pilothouse.rules.providers.scrape_targets import ScrapeTargets
from pilothouse.rules.rule_queries import VOLUME_INFO
from pilothouse.rules.samples import QueryFailure

NODE = "n1"
GIB = 1 << 30


class Volumes:
    """Volumes whose usage is at hand; ``informed`` if the page says on which device they are."""

    def __init__(self, folder: Path, count: int, *, informed: bool) -> None:
        self.pools = StoragePools(NODE, {"default": folder}, {}, folder)
        self._usage = [_usage(claim(number), number) for number in range(count)]
        used = [VolumeInUse(f"pvc-{number}", one.namespace, one.claim, folder, LOOP, "8Gi")
                for number, one in enumerate(self._usage)]  # fmt: skip
        self._in_use = used if informed else []

    async def usage(self) -> Sequence[MeasuredUsage]:
        return self._usage

    def in_use(self) -> Sequence[VolumeInUse]:
        return self._in_use


def _usage(one: Object, number: int) -> MeasuredUsage:
    volume, size = f"pvc-{number}", 8 * GIB
    return MeasuredUsage(one.namespace, one.name, size, size - GIB, GIB, 4096, 4000, 96, volume, size)


class NoGroups:
    """Of containers that do not run."""

    def group(self, name: str) -> ContainerCgroup:
        raise NotImplementedError


class NoMatches(LogMatches):
    """A page without counters of log matches."""

    def families(self) -> Iterator[str]:
        return iter(())


class OnePage:
    """The API server, as far as it serves the page of a node."""

    def __init__(self, page: str) -> None:
        self._page = page.encode()

    async def request(self, call: ClientRequest) -> ClientResponse:
        return ClientResponse(200, {}, self._page)

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        raise NotImplementedError


def _pod(number: int, claims: Sequence[Object] = ()) -> Object:
    volumes = [{"name": each.name, "persistentVolumeClaim": {"claimName": each.name}} for each in claims]
    namespace = claims[0].namespace if claims else "default"
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number}", "namespace": namespace, "uid": f"pod-{number}"},
            "spec": {"nodeName": NODE, "volumes": volumes},
            "status": {"phase": "Running"},
        }
    )


def _warn(pod: Object, reason: str, message: str) -> None:
    raise AssertionError(message)


async def _timed(contenders: dict[str, Callable[[], Awaitable[object]]], rounds: int) -> dict[str, float]:
    """CPU seconds of each, by the median of rounds in which they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            began = time.process_time()
            await run()
            seconds[name].append(time.process_time() - began)
    return {name: statistics.median(each) for name, each in seconds.items()}


async def measure(folder: Path, volumes: int, pods: int, rounds: int) -> None:
    index, clock = ContainerIndex(), SystemClock()
    for number in range(pods):
        index.put(_pod(number), "main", InstanceSource(folder, None, None))
    matches, none = LogMatches(index, _warn, clock), NoMatches(index, _warn, clock)

    def pages(count: int, counted: LogMatches, *, informed: bool) -> MetricsPages:
        return MetricsPages(NODE, index, NoGroups(), Volumes(folder, count, informed=informed), counted)

    informed = pages(volumes, matches, informed=True)
    made = {
        f"{volumes} volumes": pages(volumes, matches, informed=False).all,
        f"{volumes} volumes, with volume_info": informed.all,
        f"{pods} pods that ask for nothing, before": pages(0, none, informed=False).all,
        f"{pods} pods that ask for nothing": pages(0, matches, informed=True).all,
        f"a pass of log counters over {pods} such pods": matches.look,
    }
    page = await informed.all()
    claims = [claim(number) for number in range(volumes)]
    by_pod = [_pod(number, [each]) for number, each in enumerate(claims)]
    node = Object.of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "uid": NODE}})
    targets = ScrapeTargets(lambda: [node], lambda: by_pod, lambda: claims)
    provider = EmbeddedProvider(OnePage(page), targets, clock)
    asked = [ALIASES["VolumeUsagePercent"], VOLUME_INFO]
    provider.keep(asked)

    async def read() -> None:
        await provider.scrape(0.0)

    async def read_after_a_change() -> None:
        # One that mounts the claim of another comes and goes.
        by_pod[volumes:] = [] if by_pod[volumes:] else [_pod(volumes, claims[:1])]
        await read()

    first = await _timed({f"{volumes} volumes read for the first time": read}, 1)
    reads = {"read again": read, "read after a pod came or went": read_after_a_change}
    again = await _timed(
        {**made, **{f"{volumes} volumes {name}": run for name, run in reads.items()}}, rounds
    )
    assert not provider.counts.failures
    answers = await provider.query(asked, clock.now())
    for answer in answers.values():
        assert not isinstance(answer, QueryFailure), answer
        assert len(answer) == volumes
    await provider.close()
    lines = page.count("\n")
    print(f"a page of {len(page) / 1e6:.1f} MB and {lines} lines, {provider.series} series of which are read")
    for name, seconds in {**again, **first}.items():
        print(f"{name:>50} {1000 * seconds:9.2f} CPU ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--volumes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure(Path(name), chosen.volumes, chosen.pods, chosen.rounds))


if __name__ == "__main__":
    main()
