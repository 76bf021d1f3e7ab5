"""Deletes a Pilot whose pod has been missing for a period, unless its set still wants the pod or its pilot is
alive.

A Pilot holds what is known of an instance, so it stays while the StatefulSet wants its pod. A pilot may also
run outside any pod: as long as it renews its Lease, its Pilot stays. The condition ``PodPresent`` keeps when
the pod was first seen missing, over restarts of the manager. The period counts from then, from the last start
of the process, or from the last renewal of the Lease, whichever is latest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import Lease, Pilot, Pod, StatefulSet
from pilothouse.api.navigator.labels import pilot_lease
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.controllers.stateful_sets.pod_identity import split
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import Controller, controller
from pilothouse.runtime.intents import Delete, Intent, ObjectTarget, RequeueAfter, SetStatus
from pilothouse.runtime.snapshot import Snapshot

GRACE: Final = 300.0
"""Default seconds without a pod after which a Pilot is deleted."""
PRESENT: Final = "PodPresent"


def pilot_collector(grace: float = GRACE) -> Controller:
    """The controller that deletes Pilots after so many seconds without a pod."""

    @controller(Pilot, also=Pod, reads=(Lease, StatefulSet), name="pilot-garbage")
    def decide(pilot: Object, world: Snapshot) -> Iterator[Intent]:
        """A Pilot whose pod has been missing for the grace period is deleted."""
        if pilot.deleting:
            return
        if world.find(Pod, pilot.namespace, pilot.name) is not None:
            if pilot.condition(PRESENT) is not None and not pilot.is_true(PRESENT):
                yield _noted(pilot, world.now, status="True", reason="PodFound")
            return
        if _is_wanted(pilot, world):
            yield RequeueAfter(grace, because=f"the StatefulSet of pod {pilot.name} is about to create it")
            return
        if pilot.condition(PRESENT) is None or pilot.is_true(PRESENT):
            yield _noted(pilot, world.now, status="False", reason="PodMissing")
            yield RequeueAfter(grace, because=f"no pod {pilot.name}; the grace period starts")
            return
        gone = world.now - _missing_since(pilot, world.now)
        silent = _silence(pilot, world, gone)
        if silent < grace:
            alive = "its pilot renews its lease" if silent < gone else "the grace period is not over"
            yield RequeueAfter(grace - silent, because=f"no pod {pilot.name}; {alive}")
            return
        yield Delete(
            pilot,
            exact=True,
            unless=(ObjectTarget(Pod, pilot.namespace, pilot.name),),
            because=f"no pod {pilot.name} and no heartbeat for {grace:g} seconds",
            event="PilotCollected",
        )

    return decide


def _is_wanted(pilot: Object, world: Snapshot) -> bool:
    parts = split(pilot.name)
    if parts is None:
        return False
    name, ordinal = parts
    stateful_set = world.find(StatefulSet, pilot.namespace, name)
    if stateful_set is None or stateful_set.deleting:
        return False
    start = int(stateful_set.at("spec", "ordinals", "start", default=0))
    return start <= ordinal < start + int(stateful_set.spec.get("replicas", 1))


def _missing_since(pilot: Object, now: float) -> float:
    condition = pilot.condition(PRESENT) or {}
    seen = condition.get("lastTransitionTime")
    started = pilot.moment("status", "lastStartedTime") or 0.0
    # A clock that is ahead must not keep the Pilot forever.
    return max(parse_time(seen) if seen else now, min(started, now))


def _silence(pilot: Object, world: Snapshot, gone: float) -> float:
    """Seconds since the pod went missing or since the Lease was last renewed, whichever is shorter."""
    name = pilot_lease(pilot.name)
    if world.find(Lease, pilot.namespace, name) is None:
        return gone
    return min(gone, world.silence(Lease, pilot.namespace, name, pilot.arrived))


def _noted(pilot: Object, now: float, *, status: str, reason: str) -> SetStatus:
    there = "exists" if status == "True" else "does not exist"
    condition = {
        "type": PRESENT,
        "status": status,
        "reason": reason,
        "message": f"Pod {pilot.name} {there}.",
    }
    conditions = with_condition(pilot.status.get("conditions"), condition, now=format_time(now))
    return SetStatus(pilot, {**pilot.status, "conditions": conditions}, because=f"pod {pilot.name} {there}")
