"""Chooses the endpoint of a connection.

    balance = LoadBalancer(clock, rng)
    balance.order(backend, client="127.0.0.1")      # all of its endpoints, the one to try first in front
    balance.settled(backend, "127.0.0.1", endpoint)

The order is random. With affinity, the client's last endpoint comes first while it is ready and the affinity
lasts.
"""

from __future__ import annotations

from random import Random
from typing import Final

from pilothouse.base.clock import Clock
from pilothouse.node.services.backends import Backend, ServiceEndpoint

MOST: Final = 10_000
"""Clients remembered at a time; the oldest are dropped first."""


class LoadBalancer:
    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._went: dict[tuple[str, str], tuple[ServiceEndpoint, float]] = {}

    def order(self, backend: Backend, client: str) -> list[ServiceEndpoint]:
        """The order in which endpoints are tried for a client."""
        endpoints = self._rng.sample(backend.endpoints, len(backend.endpoints))
        went = self._went.get((backend.name, client)) if backend.affinity else None
        if went is not None:
            endpoint, when = went
            if endpoint in endpoints and self._clock.monotonic() - when < backend.affinity:
                endpoints.remove(endpoint)
                endpoints.insert(0, endpoint)
        return endpoints

    def settled(self, backend: Backend, client: str, endpoint: ServiceEndpoint) -> None:
        """Remember that a client was connected to an endpoint."""
        if not backend.affinity:
            return
        key = (backend.name, client)
        self._went.pop(key, None)
        self._went[key] = (endpoint, self._clock.monotonic())
        if len(self._went) > MOST:
            del self._went[next(iter(self._went))]
