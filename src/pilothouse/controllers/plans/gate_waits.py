"""Machines whose turn has come, and that a gate ``before`` a machine holds: since when, and how long at most.

A machine that is held has the step ``WaitingForGate`` in its status, since the time of that step, with what
shuts the gate. It fails after ``nodeDeadline``. Time in which something else holds it, as a pause, does not
count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pilothouse.api.k0s.v1beta2 import TargetStatus
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.plans import gates, questions
from pilothouse.controllers.plans.machines_in_progress import failed
from pilothouse.controllers.plans.stages import FAILURES, PENDING
from pilothouse.controllers.plans.update_run import UpdateRun, moment, stamped

WAITING_FOR_GATE: Final = "WaitingForGate"
_CLOSED: Final = "GateClosed"


def hold(run: UpdateRun, targets: Sequence[TargetStatus], shut: Sequence[str]) -> list[TargetStatus]:
    """Hold machines by the gates that are shut; those that were held for too long have failed."""
    text = "; ".join(shut)
    held = [stamped(target, run.time, step=WAITING_FOR_GATE, description=text) for target in targets]
    held = [_held_to_deadline(run, target) for target in held]
    if waiting := [target for target in held if target.state not in FAILURES]:
        _wait(run, waiting)
    return held


def keep_holding(run: UpdateRun, targets: Sequence[TargetStatus]) -> bool:
    """Wait on while the gates are being looked up again. False if these machines are not held."""
    held = [target for target in targets if target.step == WAITING_FOR_GATE]
    if held:
        _wait(run, held)
    return bool(held)


def release(run: UpdateRun) -> None:
    """Forget since when machines were held that something else holds at present."""
    stage = run.stage
    if stage is None or any(wait.reason == _CLOSED for wait in run.waits):
        return
    run.change(
        stage.with_changes(
            stamped(target, run.time, step="", description="")
            for target in stage.targets
            if target.state == PENDING and target.step == WAITING_FOR_GATE
        )
    )


def _held_to_deadline(run: UpdateRun, target: TargetStatus) -> TargetStatus:
    due = moment(target.last_updated_timestamp) + run.node_deadline
    if due <= run.now:
        why = f"{target.description}, for longer than its nodeDeadline of {run.rollout.node_deadline}"
        return failed(run, target, why)
    run.look_at(due)
    return target


def _wait(run: UpdateRun, held: Sequence[TargetStatus]) -> None:
    since = min(moment(target.last_updated_timestamp) for target in held)
    run.wait(
        _CLOSED,
        f"since {format_time(since)}: {held[0].description}",
        remedy=_remedy(run, held[0].description),
        until=run.now + questions.ASK_AGAIN,
    )


def _remedy(run: UpdateRun, description: str) -> str:
    """What opens the gates that a machine is held by."""
    opens = [
        gates.what_opens(gate)
        for gate in run.rollout.gates
        if gate.when == "before" and f"gate {gate.name}: " in description
    ]
    limit = f"a machine that is held for longer than nodeDeadline ({run.rollout.node_deadline}) fails"
    return "; ".join([*opens, "if a gate is mistaken, correct spec.rollout.gates", limit])
