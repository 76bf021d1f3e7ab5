"""EventRecorder about this node and its pods, written in the background.

    events = EventRecorder(api, teller, clock)
    events.tell(pod, "Started", "Started container db")
    await events.run()

What can't be written after a while is dropped: events are for people, and nothing depends on them.
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
_COUNTED: Final = ("count", "lastTimestamp")

log = logging.getLogger(__name__)


class EventRecorder:
    """Those of one node."""

    def __init__(self, api: Api, teller: EventCorrelator, clock: Clock) -> None:
        self._api = api
        self._teller = teller
        self._clock = clock
        self._queue: asyncio.Queue[EventWrite] = asyncio.Queue(_WAITING)

    def tell(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        """Have it written, soon."""
        write = self._teller.correlate(about, reason, message, now=self._clock.now(), warning=warning)
        if write is not None and not self._queue.full():
            self._queue.put_nowait(write)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            write = await self._queue.get()
            try:
                await self._write(write)
            except (StatusError, TransportError, AccessError) as problem:
                log.info("an event could not be written: %s", problem)

    async def _write(self, write: EventWrite) -> None:
        tree = write.tree
        if write.count == 1:
            try:
                await self._api.create(CoreEvent, tree)
            except StatusError as refusal:
                if refusal.code != 409:
                    raise
            else:
                return
        # Somebody has said it before, perhaps an earlier agent.
        metadata = tree["metadata"]
        fields = {name: tree[name] for name in _COUNTED}
        try:
            await self._api.patch(CoreEvent, metadata["name"], metadata["namespace"], fields)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            await self._api.create(CoreEvent, tree)
