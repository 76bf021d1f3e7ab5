"""The gates of a rollout: objects that have to be in a certain state before, during or after each machine.

A gate that the observer does not mention is shut.
"""

from __future__ import annotations

from typing import Literal

from pilothouse.api.k0s.rollout import Gate
from pilothouse.api.k0s.v1beta2 import PlanAnswers
from pilothouse.controllers.plans import questions
from pilothouse.controllers.plans.update_run import UpdateRun, moment

When = Literal["before", "during", "after"]


def has_gates(run: UpdateRun, when: When) -> bool:
    return any(gate.when == when for gate in run.rollout.gates)


def shut(run: UpdateRun, when: When, answers: PlanAnswers) -> list[str]:
    """The gates that are shut, each with its reason."""
    found = {answer.name: answer for answer in answers.gates}
    texts = []
    for gate in run.rollout.gates:
        answer = found.get(gate.name)
        if gate.when == when and (answer is None or not answer.open):
            why = answer.message if answer is not None else "its objects could not be read"
            texts.append(f"gate {gate.name}: {why or 'its expression does not hold'}")
    return texts


def what_opens(gate: Gate) -> str:
    """When a gate that is shut, or whose objects can't be read, would be open."""
    where = f" in namespace {gate.namespace}" if gate.namespace else ""
    if gate.object_name:
        objects = f"{gate.kind} {gate.object_name}{where}"
    else:
        labels = f" with labels {gate.labels}" if gate.labels else ""
        objects = f"every {gate.kind}{labels}{where}, of which there has to be one"
    return f"gate {gate.name} opens when `{gate.expression}` is true of {objects}"


def latest(run: UpdateRun, since: float) -> PlanAnswers | None:
    """The last answer about gates, if it is recent and not older than this; asks again when it is time to.

    Both are times of leaders, whose clocks may differ or be set back. If ``since`` is still to come, every
    answer that is recent counts: otherwise none would until then, and each would lead to the next question.
    """
    answers = run.status.answers
    if answers is not None and not (answers.gates and _is_usable(run, moment(answers.time), since)):
        answers = None
    due = moment(answers.time) + questions.ASK_AGAIN if answers is not None else run.now
    if due <= run.now and not questions.is_open(run.status):
        questions.ask(run, gates=True)
    run.look_at(max(due, run.now + 1.0))
    return answers


def _is_usable(run: UpdateRun, answered: float, since: float) -> bool:
    return run.now - questions.OLDEST <= answered <= run.now and (answered >= since or since > run.now)
