"""The machines whose turn it is: how far they are, and whether they are done or have failed.

A worker is done when its signal is Completed and its Node is Ready, for as long as ``soak`` asks, and the
gates after a machine are open; a controller when its signal is Completed and it reports the version. One that
does not get there within ``nodeDeadline`` and ``soak`` has failed.

Soaks count by the clock of the leader, from the decision that saw the machine's last step, or saw the Node
Ready again. What a machine wrote by its own clock counts only if it makes sense by the leader's.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.k0s.signals import COMPLETED, FAILED_DOWNLOAD
from pilothouse.api.k0s.signals import FAILED as SIGNAL_FAILED
from pilothouse.api.k0s.v1beta2 import SignalState, TargetStatus
from pilothouse.api.kind_names import Node
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import TimeError, format_time, parse_time
from pilothouse.controllers.plans import gates, questions
from pilothouse.controllers.plans.stages import DONE, FAILED, NO_MACHINE, PENDING, SENT, Stage
from pilothouse.controllers.plans.turn_signals import platform_of
from pilothouse.controllers.plans.update_run import UpdateRun, moment, stamped

_DOWN: Final = "the update is done, but the Node is not Ready"


def observe(run: UpdateRun) -> None:
    """Record how far the machines in progress are."""
    stage = run.stage
    if stage is None or not stage.in_progress:
        return
    if stage.part == "controllers" and run.status.questions is not None and run.status.questions.readiness:
        # An answer from before its end says nothing about the controllers after it.
        questions.use_up(run)
    changed = [_held_to_gates(run, _observed(run, stage, target)) for target in stage.in_progress]
    for target in changed:
        if target.state == FAILED or target.state == NO_MACHINE:
            run.event("UpdateFailed", f"{target.name}: {target.description}", warning=True)
    run.change(stage.with_changes(changed))


def is_ready(node: Object) -> bool:
    return node.is_true("Ready") and not node.deleting


def failed(run: UpdateRun, target: TargetStatus, why: str, state: SignalState = FAILED) -> TargetStatus:
    return stamped(target, run.time, state=state, description=why, completed_time=run.time)


def deadline_of(run: UpdateRun, target: TargetStatus) -> float:
    return moment(target.started_time) + run.node_deadline + run.soak


def send(
    run: UpdateRun, stage: Stage, machine: Object, target: TargetStatus, *, rollback: bool = False
) -> None:
    """Signal a machine whose turn is recorded."""
    payload = stage.update.platforms[platform_of(machine.labels)]
    signal = run.turn(stage, rollback=rollback).new(target.started_time or run.time, payload)
    what = "returns to its earlier version" if rollback else f"is updated to {stage.update.version}"
    run.signal(machine, signal.annotations(), because=f"{machine.name} {what}")


def _observed(run: UpdateRun, stage: Stage, target: TargetStatus) -> TargetStatus:
    machine = run.world.find(stage.noun, "", target.name)
    if machine is None:
        return failed(run, target, f"its {stage.noun.kind} is gone", NO_MACHINE)
    signal = run.turn(stage).find(machine)
    if signal is None:
        return _unsignalled(run, stage, machine, target)
    reason = signal.status.reason if signal.status else ""
    was_down = target.description == _DOWN
    target = stamped(target, run.time, step=signal.step, description=reason)
    if signal.step in (SIGNAL_FAILED, FAILED_DOWNLOAD):
        return failed(run, target, reason or f"the machine reported {signal.step}")
    if signal.step != COMPLETED:
        return _held_to_deadline(run, target, "")
    if (was_down and is_ready(machine)) or moment(target.last_updated_timestamp) > run.now:
        # It soaks from here. A time to come is that of a clock that was ahead.
        target = msgspec.structs.replace(target, last_updated_timestamp=run.time)
    lacking = _lacking(run, stage, machine, target) or _shut_after(run, target) or _not_looked_up(run, target)
    if lacking:
        return _held_to_deadline(run, target, lacking)
    return stamped(target, run.time, state=DONE, description="", completed_time=run.time)


def _held_to_deadline(run: UpdateRun, target: TargetStatus, lacking: str) -> TargetStatus:
    due = deadline_of(run, target)
    if due <= run.now:
        step = f"the last step was {target.step}" if target.step else "its agent has not answered"
        why = lacking or target.description
        soak = f" and soak of {run.rollout.soak}" if run.soak else ""
        text = f"it took longer than its nodeDeadline of {run.rollout.node_deadline}{soak}: {step}"
        return failed(run, target, f"{text}: {why}" if why else text)
    run.look_at(due)
    return stamped(target, run.time, description=lacking) if lacking else target


def _unsignalled(run: UpdateRun, stage: Stage, machine: Object, target: TargetStatus) -> TargetStatus:
    """The turn was recorded, but its signal was not written: it is sent again. To a controller it
    is sent only while the readiness on which its turn was based still holds; else all are asked again."""
    if deadline_of(run, target) <= run.now:
        return _held_to_deadline(run, target, "its signal could not be written")
    if stage.part == "controllers" and not questions.still_holds(run):
        return stamped(target, run.time, state=PENDING, step="", started_time=None)
    if platform_of(machine.labels) not in stage.update.platforms:
        return failed(run, target, "its labels name a platform that the plan has no download for")
    send(run, stage, machine, target)
    return target


def _lacking(run: UpdateRun, stage: Stage, machine: Object, target: TargetStatus) -> str:
    """What a machine lacks that has taken its last step; empty if nothing."""
    done = moment(target.last_updated_timestamp)
    if stage.noun == Node:
        if not is_ready(machine):
            return _DOWN
        # It may have been down between two decisions.
        ready = reported((machine.condition("Ready") or {}).get("lastTransitionTime"))
        done = max(done, ready if ready <= run.now else 0.0)
    elif not stage.forced and (version := _version(machine)) != stage.update.version:
        return f"it reports the version {version or 'unknown'} instead of {stage.update.version}"
    if run.now < (end := done + run.soak) and run.soak:
        run.look_at(end)
        return f"it is observed until {format_time(end)}"
    return ""


def _version(machine: Object) -> str:
    return str(machine.at("status", "k0sVersion", default=""))


def _held_to_gates(run: UpdateRun, target: TargetStatus) -> TargetStatus:
    """A machine in progress fails when a gate shuts that has to be open during its turn, to its end."""
    if target.state not in (SENT, DONE) or not gates.has_gates(run, "during"):
        return target
    answers = gates.latest(run, moment(target.started_time))
    closed = gates.shut(run, "during", answers) if answers is not None else []
    return failed(run, target, "; ".join(closed)) if closed else target


def _not_looked_up(run: UpdateRun, target: TargetStatus) -> str:
    """The gates ``during`` a machine are looked up at least once, however quick the machine is."""
    if not gates.has_gates(run, "during") or gates.latest(run, moment(target.started_time)) is not None:
        return ""
    return "the gates are being looked up"


def _shut_after(run: UpdateRun, target: TargetStatus) -> str:
    """The gates that keep a machine from being done, by an answer that is newer than its last step."""
    if not gates.has_gates(run, "after"):
        return ""
    answers = gates.latest(run, moment(target.last_updated_timestamp))
    if answers is None:
        return "the gates are being looked up"
    return "; ".join(gates.shut(run, "after", answers))


def reported(text: object) -> float:
    """The time that a machine wrote; 0 if it is none."""
    try:
        return parse_time(str(text))
    except TimeError:
        return 0.0
