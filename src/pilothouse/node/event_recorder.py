"""Records events about this node and its pods, and writes them in the background.

    events = EventRecorder(api, correlator, clock)
    events.record(pod, "Started", "Started container db")
    await events.run()                     # until cancelled

Events that can't be written are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pilothouse.api.kind_names import CoreEvent
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.event_recorder import EventCorrelator, EventWrite

_WAITING: Final = 1000

log = logging.getLogger(__name__)


class EventRecorder:
    def __init__(self, api: Api, correlator: EventCorrelator, clock: Clock) -> None:
        self._api = api
        self._correlator = correlator
        self._clock = clock
        self._queue: asyncio.Queue[EventWrite] = asyncio.Queue(_WAITING)

    def record(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        write = self._correlator.correlate(about, reason, message, now=self._clock.now(), warning=warning)
        if write is not None and not self._queue.full():
            self._queue.put_nowait(write)

    async def run(self) -> None:
        while True:
            write = await self._queue.get()
            try:
                await self._write(write)
            except (StatusError, TransportError, AccessError) as problem:
                log.info("failed to write event: %s", problem)

    async def _write(self, write: EventWrite) -> None:
        tree = write.tree
        if write.count == 1:
            try:
                await self._api.create(CoreEvent, tree)
                return
            except StatusError as refusal:
                if refusal.code != 409:
                    raise
        # The event exists, perhaps from an earlier agent: raise its count.
        metadata = tree["metadata"]
        fields = {name: tree[name] for name in ("count", "lastTimestamp")}
        try:
            await self._api.patch(CoreEvent, metadata["name"], metadata["namespace"], fields)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            await self._api.create(CoreEvent, tree)
