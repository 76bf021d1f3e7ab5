"""Rollback: after too many failures, the updated workers of the wave return to their earlier version.

Only workers of a k0supdate can: their agents have kept it. A worker that failed has already gone back by
itself, unless it failed after its update: a gate was shut, or it did not get Ready.

``limits.concurrent`` and ``maxUnavailable`` hold as for updates; a worker that is unavailable already costs
nothing and goes first. ``paused`` holds the rollback and ``aborted`` ends it; those in progress finish.
Windows and ``planDeadline`` don't: a version that failed is not kept for their sake. Each wait ends after
``nodeDeadline``, except for a pause.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.k0s.signals import (
    COMPLETED,
    CORDONING,
    DOWNLOADING,
    FAILED_DOWNLOAD,
    UNCORDONING,
    Signal,
)
from pilothouse.api.k0s.signals import FAILED as SIGNAL_FAILED
from pilothouse.api.k0s.v1beta2 import TargetStatus
from pilothouse.api.kind_names import Node
from pilothouse.controllers.plans import questions
from pilothouse.controllers.plans.machines_in_progress import deadline_of, failed, is_ready, send
from pilothouse.controllers.plans.run_limits import StopReason, deadline_exceeded
from pilothouse.controllers.plans.stages import DONE, FAILED, ROLLED_BACK, SENT, Stage, Targets
from pilothouse.controllers.plans.turn_signals import platform_of
from pilothouse.controllers.plans.update_run import UpdateRun, moment, some, stamped
from pilothouse.controllers.plans.waves import last_wave_begun
from pilothouse.controllers.plans.worker_turns import concurrent, is_unavailable, room

ROLLBACK_FAILED: Final = "RollbackFailed"
_UPDATED: Final = (UNCORDONING, COMPLETED)
"""The steps after the update: the first one lasts until the Node is Ready."""
_BEFORE_UPDATE: Final = (DOWNLOADING, CORDONING)


def should_roll_back(run: UpdateRun, stop: StopReason) -> bool:
    return (
        run.rollout.on_failure == "rollback"
        and stop.reason == "WorkerFailed"
        and (stage := _stage(run)) is not None
        and any(_is_candidate(target) or _is_late(run, stage, target) for target in _wave(run, stage))
    )


def reason_of_rollback(run: UpdateRun) -> StopReason:
    """Why the rollback in progress was begun."""
    failure = next((one for one in run.status.conditions if one.type == "Failed"), None)
    return StopReason("ApplyFailed", "WorkerFailed", failure.message if failure else "workers have failed")


def roll_back(run: UpdateRun, stop: StopReason) -> StopReason:
    """Take the wave back, as many workers at a time as are updated, and then end the run. Returns why it
    failed."""
    stage = _stage(run)
    if stage is None:
        run.end(*stop)
        return stop
    if not run.status.rolling_back:
        questions.use_up(run)
        run.status = msgspec.structs.replace(run.status, rolling_back=True)
        run.actions.append(f"{stop.description}; the updated workers of the wave are rolled back")
        run.event("RollbackStarted", stop.description, warning=True)
    stage = stage.with_changes([_observed(run, stage, target) for target in stage.in_progress])
    stage = stage.with_changes([_caught_up(run, stage, target) for target in _wave(run, stage)])
    if not (run.rollout.paused or run.rollout.aborted):
        stage = stage.with_changes(_next(run, stage))
    run.change(stage)
    waiting = tuple(target for target in _wave(run, stage) if _is_candidate(target))
    late = any(_is_late(run, stage, target) for target in _wave(run, stage))
    overdue = deadline_exceeded(run)
    if run.rollout.aborted:
        return _abort(run, stage, waiting, stop)
    if stage.in_progress or waiting or late:
        _wait(run, stage, waiting, overdue)
        return stop
    if overdue:
        stop = stop._replace(description=f"{stop.description}; {overdue}")
    run.end(*stop)
    return stop


def _abort(run: UpdateRun, stage: Stage, waiting: Targets, stop: StopReason) -> StopReason:
    """End a rollback before all have returned; those in progress finish."""
    if stage.in_progress:
        names = some([target.name for target in stage.in_progress])
        run.wait("Stopping", f"the plan was aborted; the workers in progress finish their rollback: {names}")
        return stop
    left = f", and these keep the update: {some([one.name for one in waiting])}" if waiting else ""
    text = f"the plan was aborted during the rollback{left}; it was begun because of {stop.description}"
    ended = StopReason("ApplyFailed", "Aborted", text)
    run.end(*ended)
    return ended


def _wait(run: UpdateRun, stage: Stage, waiting: Targets, overdue: str) -> None:
    going = some([target.name for target in stage.in_progress])
    if run.rollout.paused and waiting:
        left = some([target.name for target in waiting])
        because = f"the plan is paused; to be rolled back: {left}" + (
            f"; in progress: {going}" if going else ""
        )
        run.wait("Paused", because, remedy="set spec.rollout.paused to false, or run: pilothouse plan resume")
        return
    because = f"workers return to their earlier version: {going}"
    if waiting and not going:
        run.look_at(_place_due(run, stage))
        because = (
            "as many workers are not Ready or cordoned as spec.rollout.maxUnavailable allows; "
            f"to be rolled back: {some([target.name for target in waiting])}"
        )
    elif not going:
        late = [target.name for target in _wave(run, stage) if _is_late(run, stage, target)]
        because = f"workers that failed are still in their update: {some(late)}"
    if overdue:
        because = f"{because}; {overdue}, which does not stop a rollback"
    run.wait("RollingBack", because)


def _next(run: UpdateRun, stage: Stage) -> list[TargetStatus]:
    """Begin as many as there are places; if there are none for too long, those that wait have failed."""
    waiting = [target for target in _wave(run, stage) if _is_candidate(target)]
    free = max(0, concurrent(stage) - len(stage.in_progress))
    space = room(run, stage)
    if space is None:
        return [_begun(run, stage, target) for target in waiting[:free]]
    down = [target for target in waiting if is_unavailable(run, target)]
    up = [target for target in waiting if target not in down]
    chosen = down[:free]
    chosen += up[: max(0, min(space, free - len(chosen)))]
    if not chosen and waiting and not stage.in_progress and _place_due(run, stage) <= run.now:
        why = (
            "it could not be rolled back: as many workers were not Ready or cordoned as spec.rollout."
            f"maxUnavailable allows, for longer than the nodeDeadline of {run.rollout.node_deadline}"
        )
        return [failed(run, stamped(target, run.time, step=ROLLBACK_FAILED), why) for target in waiting]
    return [_begun(run, stage, target) for target in chosen]


def _place_due(run: UpdateRun, stage: Stage) -> float:
    """Until when workers wait for a place: ``nodeDeadline`` after the last progress, or the last pause."""
    progress = max(moment(target.last_updated_timestamp) for target in _wave(run, stage))
    paused = next((one for one in run.status.conditions if one.type == "Paused"), None)
    if paused is not None:
        # The condition is that of the decision before: a pause that it still reports ends with this one.
        resumed = run.now if paused.status == "True" else moment(paused.last_transition_time)
        progress = max(progress, resumed)
    return progress + run.node_deadline


def _stage(run: UpdateRun) -> Stage | None:
    """The workers that were being updated when it failed."""
    begun = [
        stage
        for stage in run.stages
        if stage.part == "workers" and any(target.started_time for target in stage.targets)
    ]
    return begun[-1] if begun else None


def _wave(run: UpdateRun, stage: Stage) -> tuple[TargetStatus, ...]:
    return last_wave_begun(stage.targets, run.rollout.waves)


def _is_candidate(target: TargetStatus) -> bool:
    return target.state == DONE or (target.state == FAILED and target.step in _UPDATED)


def _is_late(run: UpdateRun, stage: Stage, target: TargetStatus) -> bool:
    """Whether a worker has failed by a gate or its deadline while its agent still updates it."""
    ended = (SIGNAL_FAILED, FAILED_DOWNLOAD, ROLLBACK_FAILED)
    if target.state != FAILED or target.step in ended or target.step in _UPDATED:
        return False
    signal = _signal(run, stage, target)
    if signal is None or not signal.step:
        return False
    if signal.step in _BEFORE_UPDATE:
        # Nothing has changed on the machine yet, and the drain lets it go no further.
        return run.now < deadline_of(run, target)
    return True


def _caught_up(run: UpdateRun, stage: Stage, target: TargetStatus) -> TargetStatus:
    """The step of a worker that was late, as its agent reports it."""
    if not _is_late(run, stage, target) or (signal := _signal(run, stage, target)) is None:
        return target
    if signal.ended or signal.step in _UPDATED:
        return stamped(target, run.time, step=signal.step)
    if signal.step in _BEFORE_UPDATE:
        run.look_at(deadline_of(run, target))
        return target
    due = moment(target.completed_time) + run.node_deadline
    if due <= run.now:
        why = (
            f"{target.description}; it could not be rolled back: its update did not end within another "
            f"nodeDeadline of {run.rollout.node_deadline}"
        )
        return failed(run, stamped(target, run.time, step=ROLLBACK_FAILED), why)
    run.look_at(due)
    return target


def _signal(run: UpdateRun, stage: Stage, target: TargetStatus) -> Signal | None:
    """The signal of a worker's update, if it has one."""
    node = run.world.find(Node, "", target.name)
    return run.turn(stage).find(node) if node is not None else None


def _begun(run: UpdateRun, stage: Stage, target: TargetStatus) -> TargetStatus:
    node = run.world.find(Node, "", target.name)
    if node is None or platform_of(node.labels) not in stage.update.platforms:
        return failed(run, stamped(target, run.time, step=ROLLBACK_FAILED), "its Node is gone")
    begun = stamped(target, run.time, state=SENT, step="", started_time=run.time, completed_time=None)
    send(run, stage, node, begun, rollback=True)
    return begun


def _observed(run: UpdateRun, stage: Stage, target: TargetStatus) -> TargetStatus:
    node = run.world.find(Node, "", target.name)
    if node is None:
        return failed(run, stamped(target, run.time, step=ROLLBACK_FAILED), "its Node is gone")
    signal = run.turn(stage, rollback=True).find(node)
    if signal is not None and signal.step == COMPLETED and is_ready(node):
        text = f"returned to {target.previous_version}" if target.previous_version else "returned"
        return stamped(
            target, run.time, state=ROLLED_BACK, step=COMPLETED, description=text, completed_time=run.time
        )
    reason = signal.status.reason if signal is not None and signal.status else ""
    if signal is not None and signal.step in (SIGNAL_FAILED, FAILED_DOWNLOAD):
        why = f"it could not be rolled back: {reason or signal.step}"
        return failed(run, stamped(target, run.time, step=ROLLBACK_FAILED), why)
    if (due := deadline_of(run, target)) <= run.now:
        why = f"it could not be rolled back within its nodeDeadline of {run.rollout.node_deadline}"
        return failed(run, stamped(target, run.time, step=ROLLBACK_FAILED), why)
    run.look_at(due)
    if signal is None:
        send(run, stage, node, target, rollback=True)
        return target
    return stamped(target, run.time, step=signal.step, description=reason)
