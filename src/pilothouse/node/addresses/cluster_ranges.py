"""In which ranges those of all nodes lie, as the control plane says.

    cluster = ClusterRanges(api, clock)
    await cluster.refresh()
    cluster.known            # (IPv4Network("10.44.0.0/16"),); () at a Kubernetes, which does not say; None if not known yet

Asked for now and then: an API server may be started anew with others. What was said stays until something else is.
"""

from __future__ import annotations

import logging
from ipaddress import IPv4Network
from typing import Final

import msgspec

from pilothouse.api.kubernetes.node_claims import NETWORK_PAGE, NetworkPage
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.rest import Api
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

    async def refresh(self) -> None:
        """Ask if it is time."""
        if self.known is not None and self._clock.now() - self._asked < INTERVAL:
            return
        try:
            self.known = await self._told()
        except (StatusError, TransportError, AccessError, ValueError) as problem:
            log.warning("where the ranges of nodes lie can't be asked: %s", problem)
        else:
            self._asked = self._clock.now()

    async def _told(self) -> tuple[IPv4Network, ...]:
        try:
            body = await self._api.fetch(NETWORK_PAGE, deadline=_PATIENCE)
        except StatusError as refusal:
            if refusal.code in (403, 404):
                return ()  # A Kubernetes has no such page; its controllers give ranges to nodes.
            raise
        page = msgspec.json.decode(body, type=NetworkPage)
        return tuple(IPv4Network(each) for each in page.cluster_cidrs)
