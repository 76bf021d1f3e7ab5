"""The start, the end and the history of a run.

A run follows the spec that it started with. ``paused`` and ``aborted`` are the exception: they may change at
any time, and changing them starts no run.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.k0s.rollout import Rollout
from pilothouse.api.k0s.v1beta2 import PlanAnswers, PlanRun, PlanSpec, PlanState, PlanStatus
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.plans.stages import DONE, stages

MOST_RUNS: Final = 10
"""How many ended runs the history keeps."""
RUNNING: Final = frozenset({"SchedulableWait", "Schedulable"})


def read_spec(plan: Object) -> PlanSpec:
    return msgspec.convert(plan.spec, PlanSpec)


def read_status(plan: Object) -> PlanStatus:
    return msgspec.convert(plan.status, PlanStatus)


def write_status(status: PlanStatus) -> Tree:
    tree: Tree = msgspec.to_builtins(status)
    return tree


def rollout_of(spec: PlanSpec) -> Rollout:
    return spec.rollout or Rollout()


def has_ended(status: PlanStatus) -> bool:
    return status.completed_time is not None


def wants_run(wanted: PlanSpec, status: PlanStatus) -> bool:
    """Whether a run should start: there was none, or another spec waits for its turn."""
    if rollout_of(wanted).aborted:
        return False
    if status.spec is None:
        return True
    if not has_ended(status):
        return False
    return rollout_of(status.spec).aborted or not same_run(wanted, status.spec)


def same_run(one: PlanSpec, other: PlanSpec) -> bool:
    """Whether two specs differ at most in what may change in a run."""
    return _steady(one) == _steady(other)


def _steady(spec: PlanSpec) -> PlanSpec:
    rollout = msgspec.structs.replace(rollout_of(spec), paused=False, aborted=False)
    return msgspec.structs.replace(spec, rollout=rollout)


def started(wanted: PlanSpec, generation: int, status: PlanStatus, now: str) -> PlanStatus:
    """The status of a run that starts now. Answers stay: their numbers must not come twice."""
    return PlanStatus(
        observed_generation=generation,
        run_generation=generation,
        spec=wanted,
        started_time=now,
        answers=status.answers,
        history=status.history,
        conditions=status.conditions,
    )


def ended(status: PlanStatus, state: PlanState, description: str, now: str) -> PlanStatus:
    """The status of a run that ends now."""
    run = PlanRun(
        id=status.spec.id if status.spec else "",
        generation=status.run_generation or 0,
        versions=_versions(status),
        state=state,
        description=description,
        progress=progress_text(status),
        started_time=status.started_time,
        completed_time=now,
    )
    return msgspec.structs.replace(
        without_questions(status),
        state=state,
        completed_time=now,
        rolling_back=False,
        history=(run, *status.history)[:MOST_RUNS],
    )


def without_questions(status: PlanStatus) -> PlanStatus:
    """The status without its question. If it was not answered, its number is kept as that of the last answer:
    an answer that comes late must not count for another question."""
    questions, answers = status.questions, status.answers
    if questions is not None and (answers is None or answers.number != questions.number):
        answers = PlanAnswers(number=questions.number)
    return msgspec.structs.replace(status, questions=None, answers=answers)


def progress_text(status: PlanStatus) -> str:
    """How many targets are done, of how many."""
    if status.spec is None or not status.commands:
        return ""
    states = [target.state for stage in stages(status.spec, status) for target in stage.targets]
    return f"{states.count(DONE)}/{len(states)}"


def _versions(status: PlanStatus) -> tuple[str, ...]:
    commands = status.spec.commands if status.spec else ()
    updates = (update for command in commands for update in (command.airgapupdate, command.k0supdate))
    return tuple(dict.fromkeys(update.version for update in updates if update is not None))
