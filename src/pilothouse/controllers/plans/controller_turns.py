"""The turns of controllers: one at a time, and only while every controller of the control plane is ready.

Before each turn every ControlNode is asked anew, also those that are not targets. A controller that is still
in an update of another plan, or of an earlier run, goes first: nothing else may begin beside it.
"""

from __future__ import annotations

from pilothouse.api.k0s.v1beta2 import PlanAnswers, TargetStatus
from pilothouse.api.kind_names import ControlNode
from pilothouse.api.objects import Object
from pilothouse.controllers.control_node_silence import silence_of
from pilothouse.controllers.plans import gate_waits, gates, questions
from pilothouse.controllers.plans.discovery import platform_problem
from pilothouse.controllers.plans.machines_in_progress import failed, reported, send
from pilothouse.controllers.plans.stages import NO_MACHINE, NO_PLATFORM, PENDING, SENT, Stage
from pilothouse.controllers.plans.turn_signals import signal_on
from pilothouse.controllers.plans.update_run import UpdateRun, moment, stamped

NOT_READY = "WaitingForReady"
"""The step of a target that is not ready when its turn comes."""
ANSWER_SECONDS = 30.0
"""How soon an agent that has found its machine in the Plan reports a first step."""


def controller_turn(run: UpdateRun, stage: Stage) -> None:
    """Begin the next controller, if nothing is in progress and all are ready."""
    if stage.in_progress:
        names = ", ".join(f"{target.name} ({target.step or 'signalled'})" for target in stage.in_progress)
        run.wait("InProgress", f"controller in progress: {names}")
        return
    machines = {machine.name: machine for machine in run.world.all(ControlNode)}
    if _adopted(run, stage, machines) or _vanished(run, stage, machines):
        return
    target = min(
        (target for target in stage.targets if target.state == PENDING),
        key=lambda target: (not is_busy(run, machines[target.name]), target.name),
    )
    if busy := [one for one in machines.values() if one.name != target.name and is_busy(run, one)]:
        _wait_for_other_plan(run, busy)
        return
    answers = questions.answered(run, readiness=True, gates=gates.has_gates(run, "before"))
    if answers is None:
        if not gate_waits.keep_holding(run, [target]):
            questions.wait(run)
        return
    if waiting := not_ready(machines, answers):
        _hold_or_end(run, stage, target, waiting)
    elif shut := gates.shut(run, "before", answers):
        if moment(answers.time) + questions.ASK_AGAIN <= run.now:
            questions.ask(run, readiness=True, gates=True)
        run.change(stage.with_changes(gate_waits.hold(run, [target], shut)))
    else:
        _begin(run, stage, target, machines[target.name])


def _adopted(run: UpdateRun, stage: Stage, machines: dict[str, Object]) -> bool:
    """A controller that has a signal of this run is in progress, whatever the status says."""
    for target in stage.targets:
        machine = machines.get(target.name)
        signal = run.turn(stage).find(machine) if machine is not None else None
        if target.state == PENDING and signal is not None:
            run.actions.append(f"{target.name} has its signal already")
            questions.use_up(run)
            taken = stamped(target, run.time, state=SENT, step=signal.step, started_time=signal.created)
            run.change(stage.with_changes([taken]))
            return True
    return False


def _vanished(run: UpdateRun, stage: Stage, machines: dict[str, Object]) -> bool:
    for target in stage.targets:
        if target.state != PENDING:
            continue
        if target.name not in machines:
            changed = failed(run, target, "its ControlNode is gone", NO_MACHINE)
        elif problem := platform_problem(machines[target.name], stage):
            changed = failed(run, target, problem, NO_PLATFORM)
        else:
            continue
        run.change(stage.with_changes([changed]))
        run.end("IncompleteTargets", "IncompleteTargets", f"controller {target.name}: {changed.description}")
        return True
    return False


def is_busy(run: UpdateRun, machine: Object) -> bool:
    """Whether its agent is in the middle of an update, and was heard of within the deadline of a machine.

    An agent that was signalled just before its run ended may have read the Plan, and is about to begin. If it
    has not read it, the Plan does not name its machine any more, and it never begins.
    """
    signal = signal_on(machine)
    if signal is None or signal.ended:
        return False
    created = reported(signal.created)
    if signal.status is None:
        return not run.has_signalled(signal) and run.now < created + ANSWER_SECONDS
    # The clock of the machine may be behind the leader's, which wrote the signal. If it is ahead, or the time
    # is a lie, it does not count, or the machine is busy forever.
    at_step = reported(signal.status.timestamp)
    since = max(created, at_step) if at_step <= run.now else created
    return run.now < since + run.node_deadline


def _wait_for_other_plan(run: UpdateRun, busy: list[Object]) -> None:
    names = ", ".join(machine.name for machine in busy)
    run.wait(
        "OtherUpdateInProgress",
        f"still in an update of another plan: {names}",
        remedy="wait for its end, or for spec.rollout.nodeDeadline",
        until=run.now + questions.ASK_AGAIN,
    )


def not_ready(machines: dict[str, Object], answers: PlanAnswers) -> list[str]:
    """The ControlNodes that are not ready, or have not answered, each with its reason."""
    silent = machines.keys() - {answer.name for answer in answers.readiness}
    said = {answer.name: answer.message or "not ready" for answer in answers.readiness if not answer.ready}
    said |= dict.fromkeys(sorted(silent), "no answer")
    return [
        f"{name} ({'; '.join(filter(None, (text, _silence(machines.get(name)))))})"
        for name, text in said.items()
    ]


def _silence(machine: Object | None) -> str:
    return silence_of(machine) if machine is not None else ""


def _hold_or_end(run: UpdateRun, stage: Stage, target: TargetStatus, waiting: list[str]) -> None:
    text = f"not every controller is ready: {', '.join(waiting)}"
    since = moment(target.last_updated_timestamp) if target.step == NOT_READY else run.now
    due = since + run.node_deadline
    if run.rollout.on_not_ready == "end" or due <= run.now:
        run.end("InconsistentTargets", "InconsistentTargets", text)
        return
    run.change(stage.with_changes([stamped(target, run.time, step=NOT_READY, description=text)]))
    answered = moment(run.status.answers.time if run.status.answers else None)
    if answered + questions.ASK_AGAIN <= run.now:
        questions.ask(run, readiness=True, gates=gates.has_gates(run, "before"))
    run.wait(
        "ControllersNotReady",
        text,
        remedy="the plan goes on when all are ready, and ends after spec.rollout.nodeDeadline",
        until=min(due, run.now + questions.ASK_AGAIN),
    )


def _begin(run: UpdateRun, stage: Stage, target: TargetStatus, machine: Object) -> None:
    begun = stamped(
        target,
        run.time,
        state=SENT,
        step="",
        description="",
        started_time=run.time,
        previous_version=machine.at("status", "k0sVersion", default=""),
    )
    run.change(stage.with_changes([begun]))
    questions.use_up(run)
    text = f"controller {target.name} is updated to {stage.update.version}"
    run.actions.append(text)
    run.event("UpdateStarted", text)
    send(run, stage, machine, begun)
