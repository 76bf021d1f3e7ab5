"""The plan controller: carries out the plan named ``autopilot``.

    plans()                              # the controller
    plans(frozenset({"worker"}))         # one that refuses plans with workers

A run freezes the spec in the status, asks the observer about removed APIs, finds its targets once, and then
takes its commands in order. The status says whose turn it is, and why nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from pilothouse.api.k0s.signals import DATA_ANNOTATION
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import ControlNode, Node, Plan
from pilothouse.api.objects import Object
from pilothouse.api.status_fields import Condition
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.plans import gate_waits, progress, run_lifecycle
from pilothouse.controllers.plans.controller_turns import controller_turn
from pilothouse.controllers.plans.machines_in_progress import observe
from pilothouse.controllers.plans.rollback import reason_of_rollback, roll_back, should_roll_back
from pilothouse.controllers.plans.run_limits import StopReason, reason_to_hold, reason_to_stop
from pilothouse.controllers.plans.start_checks import Exclusions, check_and_discover
from pilothouse.controllers.plans.update_run import UpdateRun
from pilothouse.controllers.plans.worker_turns import worker_turns
from pilothouse.runtime.controller import Controller, Names, controller
from pilothouse.runtime.intents import Intent, RequeueAfter, SetStatus
from pilothouse.runtime.snapshot import Snapshot

ABORTED: Final = "Aborted"
_LARGE: Final = 100
_PACE: Final = 2000
"""Targets for each second between two writes of a large status; a second at least."""


def plans(exclude: Exclusions = frozenset()) -> Controller:
    """The controller; ``exclude``: kinds of machines that no plan may update."""

    @controller(
        Plan,
        also={Node: the_plan, ControlNode: the_plan},
        name="plans",
        predicate=matters,
    )
    def decide(plan: Object, world: Snapshot) -> Iterator[Intent]:
        """Take the run of the plan one step further."""
        if plan.name != RUNNING_PLAN:
            yield from _ignored(plan, world.now)
        elif plan.deleting:
            return
        elif (left := _pause(plan, world.now)) > 0:
            yield RequeueAfter(left, because="a status with many targets is written at most once a second")
        else:
            run = UpdateRun(plan, world)
            _advance(run, exclude)
            yield from run.intents()

    return decide


def _advance(run: UpdateRun, exclude: Exclusions) -> None:
    stop = None
    if run_lifecycle.wants_run(run.wanted, run.status):
        run.status = run_lifecycle.started(run.wanted, run.plan.generation, run.status, run.time)
        run.event("PlanStarted", f"generation {run.plan.generation} starts")
    if run.status.spec is None:
        _aborted_before_start(run)
        return
    if run_lifecycle.has_ended(run.status):
        _aborted_after_end(run)
        return
    if run.status.state not in run_lifecycle.RUNNING:
        check_and_discover(run, exclude)
    else:
        stop = _carry_out(run)
    progress.report(run, stop)


def _carry_out(run: UpdateRun) -> StopReason | None:
    """Observe the machines in progress, and begin others. Returns why nothing more will begin, if so."""
    if not run.status.rolling_back:
        observe(run)
    stop = reason_to_stop(run)
    stage = run.stage
    if run.status.rolling_back:
        stop = roll_back(run, reason_of_rollback(run))
    elif stop is not None and stage is not None and stage.in_progress:
        run.wait("Stopping", f"{stop.description}; the machines in progress finish")
    elif stop is not None and should_roll_back(run, stop):
        stop = roll_back(run, stop)
    elif stop is not None:
        run.end(*stop)
    elif stage is None:
        run.end("Completed", "PlanCompleted", progress.completed_text(run))
    elif (hold := reason_to_hold(run)) is not None:
        run.wait(hold.reason, hold.because, remedy=hold.remedy, until=hold.until)
    elif stage.part == "controllers":
        controller_turn(run, stage)
    else:
        worker_turns(run, stage)
    if stop is None:
        gate_waits.release(run)
    return stop


def the_plan(changed: Object, world: Snapshot) -> Names:
    """A change of a machine concerns the run in progress. The next run starts by a change of the plan.

    The status of many targets is written only every few seconds. Until it may be written again, a change of a
    machine needs no decision: the last change of the plan has led to one that is due then.
    """
    plan = world.find(Plan, "", RUNNING_PLAN)
    if plan is None or plan.status.get("completedTime") is not None or _pause(plan, world.now) > 0:
        return
    yield plan.key


def matters(before: Object, after: Object) -> bool:
    """Heartbeats of machines don't; signals, versions, labels, readiness and cordons do."""
    if before.noun != Node:
        return True
    if before.annotations.get(DATA_ANNOTATION) != after.annotations.get(DATA_ANNOTATION):
        return True
    return (
        before.labels != after.labels
        or before.deleting != after.deleting
        or before.is_true("Ready") != after.is_true("Ready")
        or before.spec.get("unschedulable") != after.spec.get("unschedulable")
    )


def _pause(plan: Object, now: float) -> float:
    """Seconds until the status of many targets may be written again."""
    targets = _targets(plan)
    pace = max(1.0, targets / _PACE)
    left = plan.arrived + pace - now
    return left if targets > _LARGE and 0 < left <= pace else 0.0


def _targets(plan: Object) -> int:
    lists: Iterable[list[object]] = (
        targets
        for command in plan.status.get("commands") or ()
        for part in ("airgapupdate", "k0supdate")
        for targets in (command.get(part) or {}).values()
    )
    return sum(map(len, lists))


def _ignored(plan: Object, now: float) -> Iterator[Intent]:
    """Say of a plan by another name that nothing will happen."""
    text = f"only the plan named {RUNNING_PLAN} is carried out: this one has no effect"
    yield from _idle(plan, now, "NotCarriedOut", text)


def _aborted_after_end(run: UpdateRun) -> None:
    """Say of a spec that was edited after a run why it does not run."""
    assert run.status.spec is not None, "a run has ended"
    if run.rollout.aborted and not run_lifecycle.same_run(run.wanted, run.status.spec):
        _aborted_before_start(run)
    elif any(one.type == "Progressing" and one.reason == ABORTED for one in run.status.conditions):
        run.status = progress.with_condition(run.status, progress.ended_condition(run.status), run.time)


def _aborted_before_start(run: UpdateRun) -> None:
    condition = Condition(
        type="Progressing",
        status="False",
        reason=ABORTED,
        message="spec.rollout.aborted is true: no run starts",
    )
    run.status = progress.with_condition(run.status, condition, run.time)


def _idle(plan: Object, now: float, reason: str, message: str) -> Iterator[Intent]:
    status = run_lifecycle.read_status(plan)
    condition = Condition(type="Progressing", status="False", reason=reason, message=message)
    said = progress.with_condition(progress.without(status, progress.UNATTENDED), condition, format_time(now))
    said = msgspec.structs.replace(said, observed_generation=plan.generation)
    if said != status:
        yield SetStatus(plan, run_lifecycle.write_status(said), because=message, event=reason)
