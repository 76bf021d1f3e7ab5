"""A pilot without a database: it renews the Lease ``pilot-<name>`` and does nothing else."""

from __future__ import annotations

import asyncio

from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.sim import heartbeats

_AGAIN = 1.0


class IdlePilot:
    def __init__(self, api: Api, name: str, clock: Clock, *, namespace: str = "default") -> None:
        self.name = name
        self._api = api
        self._clock = clock
        self._namespace = namespace

    async def run(self) -> None:
        while True:
            try:
                await heartbeats.renew(
                    self._api, f"pilot-{self.name}", self._namespace, self.name, self._clock
                )
            except (StatusError, TransportError):
                await asyncio.sleep(_AGAIN)
            else:
                await asyncio.sleep(heartbeats.EVERY)
