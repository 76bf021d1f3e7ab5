"""What a cluster and its Pilots said, in order, from a watch; and how long each node was away.

async with StatusHistory.of(kubeconfig, "demo") as logbook:
    ...
logbook.reasons                  # of Progressing, each time that it became another
logbook.restarts                 # seconds from Ready to Ready again, by the Pilot's name
logbook.emptied                  # documents left when it was Decommissioned, by the Pilot's name
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

from pilothouse.api.kind_names import ElasticsearchCluster, Pilot
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.informer import Informer
from pilothouse.client.kubeconfig import load
from pilothouse.client.object_cache import CacheChange


class StatusHistory:
    """Of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._away: dict[str, tuple[float, str]] = {}
        self._was_ready: set[str] = set()
        self._page: list[str] = []
        self.restarts: dict[str, list[float]] = defaultdict(list)
        self.emptied: dict[str, int] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, kubeconfig: Path, cluster: str) -> AsyncIterator[StatusHistory]:
        book, clock, rng = cls(cluster), SystemClock(), Random(1)
        async with HttpTransport.open(load(kubeconfig), clock, agent="logbook") as transport:
            api = Api(transport, rng, manager="logbook")
            clusters = Informer(api, ElasticsearchCluster, rng, clock, namespace="default")
            pilots = Informer(api, Pilot, rng, clock, namespace="default")
            clusters.subscribe(book._cluster_said)
            pilots.subscribe(book._pilot_said)
            tasks = [asyncio.create_task(each.run()) for each in (clusters, pilots)]
            try:
                yield book
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def turned_page(self) -> set[str]:
        """The reasons that ``Progressing`` has had since the last time."""
        found = set(self._page)
        self._page.clear()
        return found

    @property
    def story(self) -> str:
        """How long each node was away, for people."""
        return "; ".join(
            f"{name} away for {', '.join(f'{each:.1f}' for each in times)} s"
            for name, times in sorted(self.restarts.items())
        )

    @property
    def longest_restart(self) -> float:
        return max((max(each) for each in self.restarts.values()), default=0.0)

    def _cluster_said(self, change: CacheChange) -> None:
        found = change.new
        if found is None or found.name != self._cluster:
            return
        said = found.condition("Progressing") or {}
        if said:
            self._page.append(said["reason"])

    def _pilot_said(self, change: CacheChange) -> None:
        found: Object | None = change.new
        if found is None:
            return
        started = str(found.status.get("lastStartedTime"))
        if found.is_true("Decommissioned"):
            # Once its database has ended, it says no more than that.
            self.emptied.setdefault(found.name, found.at("status", "elasticsearch", "documents"))
        if found.spec.get("decommission"):
            # It is to go: however long it is away, that is no restart.
            self._away.pop(found.name, None)
            self._was_ready.discard(found.name)
        elif found.is_true("Ready"):
            self._was_ready.add(found.name)
            since, before = self._away.pop(found.name, (0.0, started))
            if started != before:
                self.restarts[found.name].append(time.monotonic() - since)
        elif found.name in self._was_ready:
            before = str(change.old.status.get("lastStartedTime")) if change.old is not None else started
            self._away.setdefault(found.name, (time.monotonic(), before))
