"""A pilot without a database: it sends heartbeats and does nothing else.

    pilot = IdlePilot(api, "es-data-0", clock, namespace="db")
    await pilot.run()                # until cancelled

It renews the Lease ``pilot-<name>`` every ten seconds.
"""

from __future__ import annotations

import asyncio

from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.sim import heartbeats

_AGAIN = 1.0


class IdlePilot:
    """One pilot."""

    def __init__(self, api: Api, name: str, clock: Clock, *, namespace: str = "default") -> None:
        self.name = name
        self._api = api
        self._clock = clock
        self._namespace = namespace

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            try:
                await heartbeats.renew(
                    self._api, f"pilot-{self.name}", self._namespace, self.name, self._clock
                )
            except (StatusError, TransportError):
                await asyncio.sleep(_AGAIN)
            else:
                await asyncio.sleep(heartbeats.EVERY)
