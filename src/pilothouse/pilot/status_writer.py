"""Writes the Pilot's status, and events about the Pilot.

    writer = PilotStatusWriter(api, correlator, clock)
    pilot = await writer.write(pilot, facts)

A write that fails is retried with the next one: each has the whole status. An API server without this version
of the application drops fields of its section; that is reported as an event, and they are left out for a
while.
"""

from __future__ import annotations

import logging
from typing import Final

from pilothouse.api.kind_names import CoreEvent, Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.pilot.pilot_status import InstanceFacts, pilot_status, worth_writing
from pilothouse.runtime.event_recorder import EventCorrelator

FIELDS_DROPPED: Final = "StatusFieldsDropped"
_SECONDS: Final = 5.0
_DROPPED_SECONDS: Final = 300.0
"""How long fields that the API server dropped are left out before they are tried again."""

log = logging.getLogger(__name__)


class PilotStatusWriter:
    def __init__(self, api: Api, correlator: EventCorrelator, clock: Clock) -> None:
        self._api = api
        self._correlator = correlator
        self._clock = clock
        self._written = float("-inf")
        self._dropped: frozenset[str] = frozenset()
        self._dropped_until = float("-inf")

    async def write(self, pilot: Object, facts: InstanceFacts, *, always: bool = False) -> Object:
        """Write the status if it is worth it; returns the current Pilot. ``always`` defers no change."""
        status = pilot_status(pilot, facts, self._clock.now())
        section: Tree = status.get(facts.application) or {}
        if self._dropped and self._clock.monotonic() < self._dropped_until:
            section = {name: value for name, value in section.items() if name not in self._dropped}
            status.pop(facts.application, None)
            if section:
                status[facts.application] = section
        since = float("inf") if always else self._clock.monotonic() - self._written
        if not worth_writing(pilot.status, status, since=since):
            return pilot
        try:
            body = {**pilot.tree, "status": status}
            written = await self._api.update(Pilot, body, subresource="status", deadline=_SECONDS)
        except (StatusError, TransportError, AccessError) as problem:
            if not (isinstance(problem, StatusError) and problem.code == 409):
                log.warning("can't write the status of Pilot %s: %s", pilot.name, problem)
            return pilot
        self._written = self._clock.monotonic()
        kept: Tree = written.status.get(facts.application) or {}
        dropped = frozenset(
            name for name, value in section.items() if name not in kept and not _is_empty(value)
        )
        if dropped:
            await self._report_dropped(written, facts.application, dropped)
        return written

    async def record_event(self, pilot: Object, reason: str, message: str, *, warning: bool = False) -> None:
        event = self._correlator.correlate(pilot, reason, message, now=self._clock.now(), warning=warning)
        if event is None:
            return
        try:
            if event.count > 1:
                await self._api.update(CoreEvent, event.tree, deadline=_SECONDS)
            else:
                await self._api.create(CoreEvent, event.tree, deadline=_SECONDS)
        except (StatusError, TransportError, AccessError) as problem:
            log.warning("can't write an event (%s: %s): %s", reason, message, problem)

    async def _report_dropped(self, pilot: Object, application: str, dropped: frozenset[str]) -> None:
        self._dropped, self._dropped_until = dropped, self._clock.monotonic() + _DROPPED_SECONDS
        message = (
            f"the API server does not keep {', '.join(sorted(dropped))} of status.{application}: "
            f"install the package that has the driver of {application} there, too, in the same version"
        )
        log.warning("%s", message)
        await self.record_event(pilot, FIELDS_DROPPED, message, warning=True)


def _is_empty(value: object) -> bool:
    """A server leaves such fields out."""
    return value is None or value in ("", [], {}, ())
