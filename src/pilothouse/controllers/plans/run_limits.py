"""What stops a run, and what only holds it: failures, deadlines, an abort; a pause, closed windows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from pilothouse.api.k0s.update_windows import UpdateWindow
from pilothouse.api.k0s.v1beta2 import PlanState
from pilothouse.base.duration import parse_duration
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.plans.stages import FAILURES, NO_MACHINE, NO_PLATFORM
from pilothouse.controllers.plans.update_run import UpdateRun, moment


class StopReason(NamedTuple):
    """Why a run begins nothing more, and how it ends once the machines in progress have finished."""

    state: PlanState
    reason: str
    description: str


class HoldReason(NamedTuple):
    """Why a run begins nothing at present."""

    reason: str
    because: str
    remedy: str
    until: float | None = None


def reason_to_stop(run: UpdateRun) -> StopReason | None:
    if run.rollout.aborted:
        return StopReason("ApplyFailed", "Aborted", "the plan was aborted")
    if failed := _failed_controller(run):
        return failed
    if failed := _failed_workers(run):
        return failed
    if text := deadline_exceeded(run):
        return StopReason("ApplyFailed", "PlanDeadlineExceeded", text)
    return None


def deadline_exceeded(run: UpdateRun) -> str:
    """What to say of a run that takes longer than its ``planDeadline``; empty if it does not."""
    if not run.rollout.plan_deadline:
        return ""
    due = moment(run.status.started_time) + parse_duration(run.rollout.plan_deadline)
    if due <= run.now:
        return f"the plan has taken longer than its planDeadline of {run.rollout.plan_deadline}"
    run.look_at(due)
    return ""


def _failed_controller(run: UpdateRun) -> StopReason | None:
    for stage in run.stages:
        for target in stage.targets if stage.part == "controllers" else ():
            text = f"controller {target.name}: {target.description}"
            if target.state in (NO_MACHINE, NO_PLATFORM):
                return StopReason("IncompleteTargets", "IncompleteTargets", text)
            if target.state in FAILURES:
                return StopReason("ApplyFailed", "ControllerFailed", text)
    return None


def _failed_workers(run: UpdateRun) -> StopReason | None:
    targets = (target for stage in run.stages if stage.part != "controllers" for target in stage.targets)
    # A worker counts once, however many of its commands have failed.
    failed = {target.name: target for target in targets if target.state in FAILURES}
    if len(failed) <= run.rollout.max_failures:
        return None
    last = max(failed.values(), key=lambda target: (target.completed_time or "", target.name))
    others = f", and {len(failed) - 1} others failed" if len(failed) > 1 else ""
    return StopReason("ApplyFailed", "WorkerFailed", f"worker {last.name}: {last.description}{others}")


def reason_to_hold(run: UpdateRun) -> HoldReason | None:
    if run.rollout.paused:
        remedy = "set spec.rollout.paused to false, or run: pilothouse plan resume"
        return HoldReason("Paused", "the plan is paused", remedy)
    windows = [UpdateWindow.parse(msgspec.to_builtins(window)) for window in run.rollout.windows]
    now = datetime.fromtimestamp(run.now, UTC)
    if not windows or any(window.open_until(now) for window in windows):
        return None
    opens = min(window.next_opening(now) for window in windows).timestamp()
    text = f"no window is open; the next one opens at {format_time(opens)}"
    return HoldReason("OutsideWindow", text, "wait, or abort the plan and run it with other windows", opens)
