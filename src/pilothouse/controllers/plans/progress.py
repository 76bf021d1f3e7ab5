"""What a person reads in the status: the states, how many machines are done, and the conditions.

``Progressing`` has the reason of the first wait; ``Paused``, ``Failed`` and ``Complete`` say how it stands.
``SpecChanged`` is there while the spec is another than the one that runs.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pilothouse.api.k0s.v1beta2 import PlanCommandStatus, PlanState, PlanStatus
from pilothouse.api.status_fields import Condition
from pilothouse.controllers.plans.run_lifecycle import has_ended, progress_text, same_run
from pilothouse.controllers.plans.run_limits import StopReason
from pilothouse.controllers.plans.stages import DONE, FAILURES, stages
from pilothouse.controllers.plans.update_run import UpdateRun, some

CHANGED: Final = "SpecChanged"
UNATTENDED: Final = "Reconciled"
"""The condition of a plan that no controller has acted on; removed by the first decision."""


def report(run: UpdateRun, stop: StopReason | None = None) -> None:
    """Put everything into the status that follows from the rest of it."""
    status = run.status
    if status.commands and not has_ended(status):
        status = _with_states(run, status)
    status = msgspec.structs.replace(status, progress=progress_text(status))
    for condition in _conditions(run, status, stop):
        status = with_condition(status, condition, run.time)
    run.status = _with_drift(run, without(status, UNATTENDED))


def with_condition(status: PlanStatus, condition: Condition, now: str) -> PlanStatus:
    """The status with a condition; its time changes only with its status."""
    present = next((one for one in status.conditions if one.type == condition.type), None)
    since = present.last_transition_time if present and present.status == condition.status else None
    condition = msgspec.structs.replace(condition, last_transition_time=since or now)
    if present is None:
        return msgspec.structs.replace(status, conditions=(*status.conditions, condition))
    conditions = tuple(condition if one is present else one for one in status.conditions)
    return msgspec.structs.replace(status, conditions=conditions)


def without(status: PlanStatus, kind: str) -> PlanStatus:
    if not any(one.type == kind for one in status.conditions):
        return status
    return msgspec.structs.replace(
        status, conditions=tuple(one for one in status.conditions if one.type != kind)
    )


def completed_text(run: UpdateRun) -> str:
    """What a run has done that ends as Completed: some targets may have failed."""
    targets = [target for stage in run.stages for target in stage.targets]
    failed = list(dict.fromkeys(target.name for target in targets if target.state in FAILURES))
    if not failed:
        return "every target is updated"
    done = sum(target.state == DONE for target in targets)
    return f"{done} of {len(targets)} targets are updated; failed: {some(failed)}"


def ended_condition(status: PlanStatus) -> Condition:
    """The condition ``Progressing`` of a run that has ended."""
    said = status.history[0].description if status.history else ""
    return _condition("Progressing", False, "Completed" if status.state == "Completed" else "Ended", said)


def _with_states(run: UpdateRun, status: PlanStatus) -> PlanStatus:
    """The states of the commands: those that are done, the one that runs, and those that wait for it."""
    current = next((stage for stage in stages(run.spec, status) if not stage.finished), None)
    running: PlanState = "SchedulableWait"
    if current is not None and not current.in_progress and run.before.commands:
        running = "Schedulable"

    def settled(command: PlanCommandStatus) -> PlanCommandStatus:
        if current is None or command.id < current.command:
            return msgspec.structs.replace(command, state="Completed")
        state = running if command.id == current.command else "SchedulableWait"
        return msgspec.structs.replace(command, state=state)

    commands = tuple(settled(command) for command in status.commands)
    return msgspec.structs.replace(status, state=running, commands=commands)


def _conditions(run: UpdateRun, status: PlanStatus, stop: StopReason | None) -> list[Condition]:
    over, complete = has_ended(status), status.state == "Completed"
    said = status.history[0].description if over and status.history else ""
    problem = stop.description if stop is not None else "" if complete else said
    reason = stop.reason if stop is not None else run.reason or status.state
    paused = run.rollout.paused and not over
    return [
        ended_condition(status) if over else _progressing(run),
        _condition("Paused", paused, "Paused" if paused else "NotPaused", ""),
        _condition("Failed", bool(problem), reason if problem else "NoFailure", problem),
        _condition("Complete", complete, "Completed" if complete else "NotCompleted", ""),
    ]


def _progressing(run: UpdateRun) -> Condition:
    if run.waits:
        wait = run.waits[0]
        message = f"{wait.because}; {wait.remedy}" if wait.remedy else wait.because
        return _condition("Progressing", True, wait.reason, message)
    return _condition("Progressing", True, "Updating", "; ".join(run.actions))


def _with_drift(run: UpdateRun, status: PlanStatus) -> PlanStatus:
    """Say that the spec is not the one that runs."""
    if has_ended(status) or status.spec is None or same_run(run.wanted, status.spec):
        return without(status, CHANGED)
    text = (
        f"the run follows the spec of generation {status.run_generation}; "
        f"generation {run.plan.generation} runs when it has ended"
    )
    if not any(one.type == CHANGED for one in status.conditions):
        run.event(CHANGED, text)
    return with_condition(status, _condition(CHANGED, True, "RunInProgress", text), run.time)


def _condition(kind: str, holds: bool, reason: str, message: str) -> Condition:
    status: Any = "True" if holds else "False"
    return Condition(type=kind, status=status, reason=reason, message=message)
