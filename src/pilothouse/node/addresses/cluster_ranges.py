"""The address ranges of the cluster's pods and services, as the control plane reports them.

    cluster = ClusterRanges(api, clock)
    await cluster.refresh()
    cluster.known       # (IPv4Network("10.44.0.0/16"),); None if unknown; () on Kubernetes, without that page
    cluster.services    # (IPv4Network("127.96.0.0/16"),); () if unknown

Refreshed every ``INTERVAL`` seconds: an API server may restart with other ranges. The last answer stays
valid.
"""

from __future__ import annotations

import logging
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
_PATIENCE: Final = 10.0

log = logging.getLogger(__name__)


class ClusterRanges:
    """Fetches the ranges from the control plane."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._asked = float("-inf")
        self.known: tuple[IPv4Network, ...] | None = None
        self.services: tuple[IPv4Network, ...] = ()

    async def refresh(self) -> None:
        """Fetch the ranges if the last answer is older than ``INTERVAL``."""
        if self.known is not None and self._clock.now() - self._asked < INTERVAL:
            return
        try:
            page = await self._fetch()
            self.known = tuple(map(IPv4Network, page.cluster_cidrs))
            self.services = tuple(map(IPv4Network, page.service_cidrs))
        except (StatusError, TransportError, AccessError, ValueError) as problem:
            log.warning("failed to fetch the cluster's address ranges: %s", problem)
        else:
            self._asked = self._clock.now()

    async def _fetch(self) -> NetworkPage:
        try:
            body = await self._api.fetch(NETWORK_PAGE, deadline=_PATIENCE)
        except StatusError as refusal:
            if refusal.code in (403, 404):
                return NetworkPage(())  # Kubernetes has no such page; its controllers assign ranges to nodes.
            raise
        return msgspec.json.decode(body, type=NetworkPage)
