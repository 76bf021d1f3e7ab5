"""The status of a Pilot, as a pure function of the status before and of what the pilot knows.

    status = pilot_status(pilot, InstanceFacts(life=life, observation=seen, ...), now)
    if worth_writing(pilot.status, status, since=30.0): ...

Conditions of others (``PodPresent``) and sections of other applications are kept. ``Ready`` is always
written, also after a controller has changed it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.applications.registry import applications, find_application
from pilothouse.api.navigator.conditions import HOOK_FAILED, OUT_OF_TOUCH
from pilothouse.api.navigator.database_exit import crash_of
from pilothouse.api.navigator.disk_usage import DiskUsage
from pilothouse.api.objects import Object, Tree
from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.meta.conditions import find_condition, with_condition, without_condition
from pilothouse.pilot.driver import DesiredState, Observation
from pilothouse.pilot.instance_lifecycle import InstanceHistory
from pilothouse.pilot.process_exit import DatabaseExit

EDITED: Final = "EditedByHand"
"""The condition of a Pilot whose configuration was not written by its cluster."""
VOLATILE_EVERY: Final = 30.0
"""Seconds between two writes that change nothing but an application's volatile fields."""
STARTING: Final = "Starting"
"""The reason of ``Ready`` while a database that runs has not answered yet."""
_STEPS: Final = (10, 20, 30, 60, 120, 180, 300, 600, 1200, 1800, 3600)
"""Seconds of a start at which the message changes, so that the status is not written every second."""
_SLOW: Final = 120.0
"""Seconds after which the message has the driver's too."""


class InstanceFacts(msgspec.Struct, frozen=True):
    """What a pilot knows of its instance."""

    life: InstanceHistory
    desired: DesiredState
    application: str
    observation: Observation | None = None
    observed: int = 0
    """The generation of the spec at that observation."""
    pid: int | None = None
    started: float | None = None
    restarts: int = 0
    exit: DatabaseExit | None = None
    trouble: str = ""
    """What keeps the database from starting or stopping, such as a hook that fails."""
    has_failed: bool = False
    """``trouble`` is a failure, and not just something to wait for."""
    failing: Tree = {}
    """What the failing hook adds to the application's section."""
    has_served: bool = False
    """This run of the database has been ready before."""
    cluster: Tree | None = None
    """Facts about the whole cluster; None if this pilot does not lead."""
    folder: str = ""
    """The data folder."""
    volume: DiskUsage | None = None
    """The filesystem of the data folder, as last measured."""


def pilot_status(pilot: Object, known: InstanceFacts, now: float) -> Tree:
    life, seen = known.life, known.observation
    status: Tree = {
        **pilot.status,
        "observedGeneration": known.desired.generation,
        "phase": life.standing,
        "restarts": known.restarts,
    }
    if life.starts:
        status["configuration"] = {"generation": life.generation, "hash": life.hash}
    if known.started is not None:
        status["lastStartedTime"] = format_time(known.started)
    if known.exit is not None:
        status["lastExit"] = known.exit.tree()
    elif _is_outdated(pilot, known):
        del status["lastExit"]
    if seen is not None and seen.version:
        status["version"] = seen.version
    usage = _reported(pilot, known)
    if usage is not None:
        status["volume"] = {"path": known.folder, **usage.tree()}
    status.pop(known.application, None)
    if section := _section(pilot, known):
        status[known.application] = section
    status["conditions"] = _conditions(pilot, known, usage, now)
    return status


def why_not_ready(pilot: Object, known: InstanceFacts, now: float) -> tuple[str, str]:
    """The reason and the message of ``Ready`` while it is ``False``."""
    life, seen = known.life, known.observation
    runs = life.is_running and not life.stopping
    if known.trouble:
        lost = known.has_served and runs
        return OUT_OF_TOUCH if lost else HOOK_FAILED if known.has_failed else "NotReady", known.trouble
    if runs and known.has_served:
        return OUT_OF_TOUCH, (seen.message if seen is not None else "") or "It does not answer."
    if runs and (seen is None or not seen.answers):
        return STARTING, _starting(pilot, known, now)
    return "NotReady", (seen.message if seen is not None else "") or _not_ready(known)


def _starting(pilot: Object, known: InstanceFacts, now: float) -> str:
    took = max(0.0, now - known.started) if known.started is not None else 0.0
    step = max((each for each in _STEPS if each <= took), default=0)
    said = f"{known.application.capitalize()} is starting"
    if step:
        said += f", {step} s" if step < _SLOW else f", {human_age(step)}"
    if took >= _SLOW and known.observation is not None and known.observation.message:
        said += f": {known.observation.message}"
    if not _is_outdated(pilot, known) and (crash := crash_of(pilot)):
        said += f"; before that, {crash}"
    return said


def _is_outdated(pilot: Object, known: InstanceFacts) -> bool:
    """Whether another process started the database after ``lastExit``: how that run ended is unknown."""
    exited = (pilot.status.get("lastExit") or {}).get("time")
    started = pilot.status.get("lastStartedTime")
    if known.exit is not None or not exited or not started:
        return False
    is_ours = known.started is not None and started == format_time(known.started)
    return not is_ours and parse_time(started) > parse_time(exited)


def _reported(pilot: Object, known: InstanceFacts) -> DiskUsage | None:
    """The usage to report: what was reported before, unless it has changed enough."""
    before = pilot.status.get("volume") or {}
    headroom = known.observation is None or known.observation.disk_headroom
    is_same = before.get("path") == known.folder
    reported = DiskUsage.of(before, headroom=headroom) if is_same else None
    if known.volume is None:
        return reported
    measured = msgspec.structs.replace(known.volume, headroom=headroom)
    return measured if measured.differs(reported) else reported


def worth_writing(before: Mapping[str, Any], after: Mapping[str, Any], *, since: float) -> bool:
    """Whether to write the change now. ``since`` is the time since the last write, in seconds."""
    if before == after or _without_heartbeat(before) == _without_heartbeat(after):
        return False
    if since >= VOLATILE_EVERY or _leaves(after):
        return True
    return _without_volatile(before) != _without_volatile(after)


def _section(pilot: Object, known: InstanceFacts) -> Tree:
    """The application's own part of the status."""
    before = pilot.status.get(known.application) or {}
    seen = known.observation
    section = {name: value for name, value in before.items() if name != "cluster"}
    if seen is not None:
        section |= seen.status
    section |= known.failing
    if not known.life.is_running:
        section = _without(section, find_application(known.application).known_while_running)
    if known.cluster is not None:
        section["cluster"] = known.cluster
    return section


def _conditions(pilot: Object, known: InstanceFacts, usage: DiskUsage | None, now: float) -> list[Tree]:
    life, seen, moment = known.life, known.observation, format_time(now)
    conditions: list[Tree] = list(pilot.status.get("conditions") or ())
    generation = known.desired.generation

    def say(kind: str, holds: bool, reason: str, message: str, **more: Any) -> None:
        nonlocal conditions
        said = {
            "type": kind,
            "status": "True" if holds else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
            **more,
        }
        conditions = with_condition(conditions, said, now=moment)

    if life.is_running:
        say("Started", True, "ProcessStarted", f"The database runs as process {known.pid}.")
    elif life.has_ended:
        say("Started", False, "ProcessEnded", "The database has ended.")
    else:
        say("Started", False, life.standing, known.trouble or "The database is about to be started.")
    if known.exit is not None and not life.is_running:
        reason = "Stopped" if known.exit.clean else "Crashed"
        say("Stopped", True, reason, f"The database is down: {known.exit.sentence}")
    elif life.is_running:
        say("Stopped", False, "Running", "")
    ready = life.is_running and not life.stopping and seen is not None and seen.ready
    name = known.application.capitalize()
    if ready:
        say("Ready", True, f"{name}Started", f"{name} process has started", lastHeartbeatTime=moment)
    else:
        say("Ready", False, *why_not_ready(pilot, known, now), lastHeartbeatTime=moment)
    if bad := _degraded(known, usage):
        say("Degraded", True, *bad)
    elif usage is not None:
        say("Degraded", False, "AsExpected", "")
    conditions = without_condition(conditions, EDITED)
    if life.is_running and not known.desired.vouched and known.desired.hash != life.hash:
        why = (
            "The configuration in spec was not written by this Pilot's cluster: the database runs without "
            "it until its next start. Change the cluster instead; it then restores this spec."
        )
        say(EDITED, True, "NotByItsCluster", why)
    if not known.desired.decommission:
        return without_condition(conditions, "Decommissioned")
    if not life.is_running or seen is None:
        if _was_empty(conditions, generation):
            # A node that is down, or excluded from its start on, gets no shards.
            return conditions
        say("Decommissioned", False, "Unknown", "The database is down, so what is left on it is unknown.")
    elif seen.left is None or known.observed != generation:
        # An observation from before the decommission does not count: shards may still come.
        say("Decommissioned", False, "NodeDecommissioning", "What is left on it has not been checked yet.")
    elif seen.left:
        say("Decommissioned", False, "NodeDecommissioning", seen.left)
    else:
        what = seen.surplus or "No data of the cluster is left here."
        say("Decommissioned", True, "NodeDecommissioned", what)
    return conditions


def _was_empty(conditions: list[Tree], generation: int) -> bool:
    """Whether the status says that this decommission is done."""
    said = find_condition(conditions, "Decommissioned") or {}
    return said.get("status") == "True" and said.get("observedGeneration") == generation


def _not_ready(known: InstanceFacts) -> str:
    life = known.life
    if life.stopping:
        return f"It is being stopped: {life.stopping}."
    if known.exit is not None and not known.exit.clean:
        return f"The database does not run: {known.exit.sentence}"
    return "The database does not run."


def _degraded(known: InstanceFacts, usage: DiskUsage | None) -> tuple[str, str] | None:
    """What is wrong with a running instance, and what would help."""
    seen = known.observation
    if known.life.is_running and seen is not None and seen.writes_refused:
        return "WritesRefused", seen.writes_refused
    if usage is None or not usage.watermark:
        return None
    reason = "VolumeFull" if usage.watermark == "FloodStage" else "VolumeNearlyFull"
    why = f"The volume of its data, at {known.folder}, is {usage} full: make it larger, or delete data."
    return reason, why


def _leaves(status: Mapping[str, Any]) -> bool:
    """Whether its data is being moved away."""
    return any(each.get("type") == "Decommissioned" for each in status.get("conditions") or ())


def _without_heartbeat(status: Mapping[str, Any]) -> Tree:
    conditions = [_without(each, {"lastHeartbeatTime"}) for each in status.get("conditions") or ()]
    return {**status, "conditions": conditions}


def _without_volatile(status: Mapping[str, Any]) -> Tree:
    found = _without_heartbeat(status)
    for each in applications():
        if each.volatile and found.get(each.name):
            found[each.name] = _without(found[each.name], each.volatile)
    return found


def _without(fields: Mapping[str, Any], names: Collection[str]) -> Tree:
    return {name: value for name, value in fields.items() if name not in names}
