"""Sets ``Ready`` to ``Unknown`` on a Pilot whose pilot is silent.

A pilot renews its own Lease every ten seconds. What counts is when a renewal *arrives* here, not the time in
it; time in which none could have arrived does not count. Without a Lease, the last version of the Pilot
counts. A pilot that finds its ``Ready`` to be ``Unknown`` writes it again.
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
"""Default seconds without a heartbeat."""
_SOONEST: Final = 1.0
SILENT: Final = "PilotSilent"


def silent_pilots(grace: float = GRACE) -> Controller:
    """The controller that marks Pilots after so many seconds without a heartbeat."""

    @controller(Pilot, reads=Lease, name="pilot-silence")
    def decide(pilot: Object, world: Snapshot) -> Iterator[Intent]:
        """A Pilot without a heartbeat for the grace period is not ready."""
        if pilot.deleting:
            return
        name = pilot_lease(pilot.name)
        lease = world.find(Lease, pilot.namespace, name)
        silent = world.silence(Lease, pilot.namespace, name, pilot.arrived)
        if lease is not None:
            silent = min(silent, world.now - _last_heartbeat(pilot, world.now))
        if silent < grace:
            yield RequeueAfter(max(_SOONEST, grace - silent), because="waiting for the next heartbeat")
            return
        ready = pilot.condition("Ready")
        if ready is not None and ready.get("status") == "Unknown":
            yield RequeueAfter(grace, because="waiting for a heartbeat")
            return
        said = "has never reported" if lease is None and ready is None else "no longer reports"
        condition = {
            "type": "Ready",
            "status": "Unknown",
            "reason": SILENT,
            "message": f"The pilot {said}; it may be stopped, or cut off from the API server.",
        }
        conditions = with_condition(pilot.status.get("conditions"), condition, now=format_time(world.now))
        because = f"pilot {pilot.name} has not reported for {grace:g} seconds"
        yield SetStatus(pilot, {**pilot.status, "conditions": conditions}, because=because, event=SILENT)

    return decide


def _last_heartbeat(pilot: Object, now: float) -> float:
    """The heartbeat in its condition, which may be newer than its lease; one in the future does not count."""
    text = (pilot.condition("Ready") or {}).get("lastHeartbeatTime")
    moment = parse_time(text) if text else 0.0
    return moment if moment <= now else 0.0
