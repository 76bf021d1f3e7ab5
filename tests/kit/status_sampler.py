"""Watches beside a real run that no cluster says it is available while none of its pods is ready.

    async with sampled(api):
        ...                       # kill, restart, scale
    # AssertionError at the end, with what was seen and when

A status follows pods, so it may be behind them for a moment: what counts is what stays so. The simulator holds the same promise
against every write (``pilothouse.controllers.invariants``); here it is held against what a user reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.kind_names import ElasticsearchCluster, Pod
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import ready
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError

LAG = 5.0
"""Seconds for a controller to hear of it and write, on a machine that has much to do."""
_PAUSE = 0.5


class Samples:
    """What was read, one moment after the other."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self.count = 0
        self.violations: list[str] = []

    def see(self, now: float, clusters: Iterable[Object], pods: Iterable[Object]) -> None:
        """Clusters, and the pods that were read after them."""
        self.count += 1
        serving = {
            (pod.namespace, pod.labels.get(ELASTICSEARCH.cluster_label, "")) for pod in pods if ready(pod)
        }
        for cluster in clusters:
            if not cluster.is_true("Available") or cluster.key in serving:
                self._since.pop(cluster.key, None)
                continue
            since = self._since.setdefault(cluster.key, now)
            if now - since > LAG:
                told = cluster.condition("Available")
                self.violations.append(
                    f"{'/'.join(cluster.key)} says {told}, and no pod of it has been ready for {now - since:.1f} s"
                )


@asynccontextmanager
async def sampled(api: Api) -> AsyncIterator[Samples]:
    """Reads until the context ends, and fails then if a status was not true. A server that is away says nothing."""
    samples = Samples()
    task = asyncio.create_task(_sample(api, samples))
    try:
        yield samples
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not samples.violations, "\n".join(samples.violations[:5])


async def _sample(api: Api, samples: Samples) -> None:
    while True:
        try:
            clusters = (await api.list(ElasticsearchCluster)).objects
            samples.see(time.monotonic(), clusters, (await api.list(Pod)).objects if clusters else ())
        except (TransportError, StatusError, AccessError):
            pass
        await asyncio.sleep(_PAUSE)
