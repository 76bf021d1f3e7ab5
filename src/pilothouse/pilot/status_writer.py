"""Writing what is known where others see it: the Pilot's status, and events about it.

    reporter = PilotStatusWriter(api, teller, clock)
    await reporter.report(pilot, known)

A server that is away is no reason to do anything but try again later: what is written is always the whole of what is known by then.
"""

from __future__ import annotations

import logging

from pilothouse.api.kind_names import CoreEvent, Pilot
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.pilot.pilot_status import InstanceFacts, pilot_status, worth_writing
from pilothouse.runtime.event_recorder import EventCorrelator

log = logging.getLogger(__name__)
_SECONDS = 5.0


class PilotStatusWriter:
    """Tells the API."""

    def __init__(self, api: Api, teller: EventCorrelator, clock: Clock) -> None:
        self._api = api
        self._teller = teller
        self._clock = clock
        self._written = float("-inf")
        self.problem = ""
        """Why the last write did not come through; empty if it did."""

    async def report(self, pilot: Object, known: InstanceFacts, *, anyway: bool = False) -> Object:
        """Write the status if it is worth it; the Pilot as it is then. ``anyway`` lets nothing be put off."""
        status = pilot_status(pilot, known, self._clock.now())
        since = float("inf") if anyway else self._clock.monotonic() - self._written
        if not worth_writing(pilot.status, status, since=since):
            return pilot
        try:
            body = {**pilot.tree, "status": status}
            written = await self._api.update(Pilot, body, subresource="status", deadline=_SECONDS)
        except (StatusError, TransportError, AccessError) as problem:
            stale = isinstance(problem, StatusError) and problem.code == 409
            self.problem = "" if stale else str(problem)
            if not stale:
                log.warning("the status of Pilot %s could not be written: %s", pilot.name, problem)
            return pilot
        self.problem = ""
        self._written = self._clock.monotonic()
        return written

    async def tell(self, pilot: Object, reason: str, message: str, *, warning: bool = False) -> None:
        """An event about the Pilot."""
        event = self._teller.correlate(pilot, reason, message, now=self._clock.now(), warning=warning)
        if event is None:
            return
        try:
            if event.count > 1:
                await self._api.update(CoreEvent, event.tree, deadline=_SECONDS)
            else:
                await self._api.create(CoreEvent, event.tree, deadline=_SECONDS)
        except (StatusError, TransportError, AccessError) as problem:
            log.warning("an event could not be written (%s: %s): %s", reason, message, problem)
