"""The status of a Pilot as the contract of ADR 10 has it, for pilots that are simulated or scripted.

instance = ReportedInstance(started="2026-…", generation=3, hash="af3…", section={"version": "8.17.0"})
status = pilot_report(pilot, instance, now=clock.now())
"""

from __future__ import annotations

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import with_condition


class ReportedInstance(msgspec.Struct, frozen=True):
    """An instance that is up, as its pilot reports it."""

    started: str
    generation: int
    hash: str
    section: Tree
    """The application's section of the status."""
    is_empty: bool = False
    """Whether it may go, if it is decommissioned."""
    left: str = ""
    """What a decommissioned instance still holds."""


def pilot_report(
    pilot: Object,
    instance: ReportedInstance | None,
    *,
    ready: tuple[str, str] = ("", ""),
    phase: str = "",
    now: float,
) -> Tree:
    """The status; without an instance, that of a database that is down. ``ready``: reason and message."""
    status, conditions = dict(pilot.status), pilot.status.get("conditions")
    if instance is not None:
        status["lastStartedTime"] = instance.started
        status["configuration"] = {"generation": instance.generation, "hash": instance.hash}
        status["elasticsearch"] = instance.section
        is_asked = bool(pilot.spec.get("decommission"))
        if is_asked or pilot.condition("Decommissioned") is not None:
            is_empty = is_asked and instance.is_empty
            decommissioned = {
                "type": "Decommissioned",
                "status": "True" if is_empty else "False",
                "reason": "NodeEmpty" if is_empty else "NodeDecommissioning",
                "message": instance.left,
                "observedGeneration": pilot.generation,
            }
            conditions = with_condition(conditions, decommissioned, now=format_time(now))
    if instance is not None or pilot.status:
        reason, message = ready
        is_ready = "True" if instance is not None else "False"
        condition = {"type": "Ready", "status": is_ready, "reason": reason, "message": message}
        conditions = with_condition(conditions, condition, now=format_time(now))
        if phase:
            status["phase"] = phase
    if conditions is not None:
        status["conditions"] = list(conditions)
    return status


def cluster_report(pilot: Object, facts: Tree, *, acquired: str, now: float) -> Tree:
    """The leader's facts about its cluster; their time moves when the content or the leader changes."""
    before = dict(pilot.at("status", "elasticsearch", "cluster", default={}))
    seen = before.pop("observedTime", "")
    is_known = before == facts and seen >= acquired
    return {**facts, "observedTime": seen if is_known else format_time(now)}
