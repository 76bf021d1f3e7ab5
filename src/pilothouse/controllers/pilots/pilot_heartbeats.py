"""Of a pilot that is not heard of nobody knows how its instance is, and its Pilot says so.

    Manager(…, [silence(grace=60.0)])

A pilot renews its own Lease every ten seconds. What counts is when a new version of it *arrives* here, never the time that is written
in it; and time in which nothing could have arrived does not count. A pilot that has no Lease counts from the last version of its
Pilot. The first word of a pilot that finds its ``Ready`` to be ``Unknown`` is to write it anew, so nothing has to be undone here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import Lease, Pilot
from pilothouse.api.navigator.labels import pilot_lease
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import Controller, controller
from pilothouse.runtime.intents import Intent, RequeueAfter, SetStatus
from pilothouse.runtime.snapshot import Snapshot

GRACE: Final = 60.0
"""Seconds without a sign of life, unless it is said otherwise."""
_LOOK: Final = 1.0
SILENT: Final = "PilotSilent"


def silence(grace: float = GRACE) -> Controller:
    """The controller that counts on no pilot which was not heard of for so many seconds."""

    @controller(Pilot, reads=Lease, name="pilot-silence")
    def decide(pilot: Object, world: Snapshot) -> Iterator[Intent]:
        """The instance of a pilot that is not heard of is not counted on."""
        if pilot.deleting:
            return
        name = pilot_lease(pilot.name)
        lease = world.find(Lease, pilot.namespace, name)
        silent = world.silence(Lease, pilot.namespace, name, pilot.arrived)
        if lease is not None:
            silent = min(silent, world.now - _last_word(pilot, world.now))
        if silent < grace:
            yield RequeueAfter(max(_LOOK, grace - silent), because="the next sign of life is awaited")
            return
        ready = pilot.condition("Ready")
        if ready is not None and ready.get("status") == "Unknown":
            yield RequeueAfter(grace, because="a sign of life is awaited")
            return
        said = "was never heard of" if lease is None and ready is None else "is no longer heard of"
        condition = {
            "type": "Ready",
            "status": "Unknown",
            "reason": SILENT,
            "message": f"The pilot {said}; it may be stopped, or cut off from the API server.",
        }
        conditions = with_condition(pilot.status.get("conditions"), condition, now=format_time(world.now))
        because = f"nothing was heard of pilot {pilot.name} for {grace:g} seconds"
        yield SetStatus(pilot, {**pilot.status, "conditions": conditions}, because=because, event=SILENT)

    return decide


def _last_word(pilot: Object, now: float) -> float:
    """The heartbeat in its condition, which may be newer than its lease; one from the future says nothing."""
    text = (pilot.condition("Ready") or {}).get("lastHeartbeatTime")
    moment = parse_time(text) if text else 0.0
    return moment if moment <= now else 0.0
