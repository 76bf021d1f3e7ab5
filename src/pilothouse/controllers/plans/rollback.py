"""The way back: after too many failures, the updated workers of the wave return to their earlier version.

Only workers of a k0supdate can: their agents have kept it. A worker that failed has already gone back by
itself, unless it failed after its update: a gate was shut, or it did not get Ready.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.k0s.signals import COMPLETED, FAILED_DOWNLOAD, UNCORDONING
from pilothouse.api.k0s.signals import FAILED as SIGNAL_FAILED
from pilothouse.api.k0s.v1beta2 import TargetStatus
from pilothouse.api.kind_names import Node
from pilothouse.controllers.plans import questions
from pilothouse.controllers.plans.machines_in_progress import deadline_of, failed, is_ready, send
from pilothouse.controllers.plans.run_limits import StopReason
from pilothouse.controllers.plans.stages import DONE, FAILED, ROLLED_BACK, SENT, Stage
from pilothouse.controllers.plans.turn_signals import platform_of
from pilothouse.controllers.plans.update_run import UpdateRun, stamped
from pilothouse.controllers.plans.waves import last_wave_begun
from pilothouse.controllers.plans.worker_turns import concurrent

ROLLBACK_FAILED: Final = "RollbackFailed"
_UPDATED: Final = (UNCORDONING, COMPLETED)
"""The steps after the update: the first one lasts until the Node is Ready."""


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


def roll_back(run: UpdateRun, stop: StopReason) -> None:
    """Take the wave back, as many workers at a time as are updated, and then end the run."""
    stage = _stage(run)
    if stage is None:
        run.end(*stop)
        return
    if not run.status.rolling_back:
        questions.use_up(run)
        run.status = msgspec.structs.replace(run.status, rolling_back=True)
        run.actions.append(f"{stop.description}; the updated workers of the wave are rolled back")
        run.event("RollbackStarted", stop.description, warning=True)
    changed = [_observed(run, stage, target) for target in stage.in_progress]
    stage = stage.with_changes(changed)
    wave = _wave(run, stage)
    stage = stage.with_changes(_caught_up(run, stage, target) for target in wave)
    going = len(stage.in_progress)
    waiting = [target for target in _wave(run, stage) if _is_candidate(target)]
    begun = [_begun(run, stage, target) for target in waiting[: max(0, concurrent(stage) - going)]]
    stage = stage.with_changes(begun)
    run.change(stage)
    late = any(_is_late(run, stage, target) for target in _wave(run, stage))
    if stage.in_progress or late or any(_is_candidate(target) for target in _wave(run, stage)):
        names = ", ".join(target.name for target in stage.in_progress[:10])
        run.wait("RollingBack", f"workers return to their earlier version: {names}")
    else:
        run.end(*stop)


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
    node = run.world.find(Node, "", target.name)
    signal = run.turn(stage).find(node) if node is not None else None
    return signal is not None and bool(signal.step) and run.now < deadline_of(run, target)


def _caught_up(run: UpdateRun, stage: Stage, target: TargetStatus) -> TargetStatus:
    """The step of a worker that was late, as its agent reports it."""
    if not _is_late(run, stage, target):
        return target
    node = run.world.find(Node, "", target.name)
    signal = run.turn(stage).find(node) if node is not None else None
    run.look_at(deadline_of(run, target))
    return stamped(target, run.time, step=signal.step) if signal is not None and signal.ended else target


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
