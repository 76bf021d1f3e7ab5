"""The address ranges of the cluster's pods and services, as the control plane reports them.

    cluster = ClusterRanges(api, clock)
    await cluster.refresh()
    cluster.known            # (IPv4Network("10.44.0.0/16"),); () at a Kubernetes, which does not say; None if not known yet
    cluster.services         # (IPv4Network("127.96.0.0/16"),); () if not known, or not said

Asked for now and then: an API server may be started anew with others. What was said stays until something else is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Final

import msgspec

from pilothouse.api.kubernetes.node_claims import NETWORK_PAGE, NetworkPage
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError

INTERVAL: Final = 300.0
"""Seconds between two questions."""
_PATIENCE: Final = 10.0

log = logging.getLogger(__name__)


class ClusterRanges:
    """Asks the control plane."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._asked = float("-inf")
        self.known: tuple[IPv4Network, ...] | None = None
        self.services: tuple[IPv4Network, ...] = ()

    async def refresh(self) -> None:
        """Ask if it is time."""
        if self.known is not None and self._clock.now() - self._asked < INTERVAL:
            return
        try:
            page = await self._told()
            self.known, self.services = _networks(page.cluster_cidrs), _networks(page.service_cidrs)
        except (StatusError, TransportError, AccessError, ValueError) as problem:
            log.warning("can't read the address ranges of nodes: %s", problem)
        else:
            self._asked = self._clock.now()

    async def _told(self) -> NetworkPage:
        try:
            body = await self._api.fetch(NETWORK_PAGE, deadline=_PATIENCE)
        except StatusError as refusal:
            if refusal.code in (403, 404):
                return NetworkPage(())  # A Kubernetes has no such page; its controllers give ranges to nodes.
            raise
        return msgspec.json.decode(body, type=NetworkPage)


def _networks(texts: Iterable[str]) -> tuple[IPv4Network, ...]:
    return tuple(map(IPv4Network, texts))
