"""What a run has to know from outside the API: asked in the status, and answered there by the observer.

A question has a number, and only the answer of the same number counts. A turn that was begun uses its answer
up, in the same write: the next turn needs another one. Numbers are never used twice.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.k0s.v1beta2 import PlanAnswers, PlanQuestions, PlanStatus
from pilothouse.controllers.plans import run_lifecycle
from pilothouse.controllers.plans.update_run import UpdateRun, moment

ASK_AGAIN: Final = 10.0
"""Seconds after which something that did not hold is asked again."""
OLDEST: Final = 30.0
"""Seconds after which an answer is too old to act on."""


def ask(
    run: UpdateRun, *, readiness: bool = False, gates: bool = False, removed_apis: tuple[str, ...] = ()
) -> None:
    """Ask, together with what is still unanswered."""
    waiting = run.status.questions if is_open(run.status) else None
    run.status = msgspec.structs.replace(
        run.status,
        questions=PlanQuestions(
            number=_last_number(run.status) + 1,
            readiness=readiness or (waiting is not None and waiting.readiness),
            gates=gates or (waiting is not None and waiting.gates),
            removed_apis=removed_apis,
        ),
    )


def is_open(status: PlanStatus) -> bool:
    """Whether a question waits for its answer."""
    questions, answers = status.questions, status.answers
    return questions is not None and (answers is None or answers.number != questions.number)


def answer(
    run: UpdateRun, *, readiness: bool = False, gates: bool = False, removed_apis: tuple[str, ...] = ()
) -> PlanAnswers | None:
    """The answer to this question. Without one, it is asked, and the run waits."""
    found = answered(run, readiness=readiness, gates=gates, removed_apis=removed_apis)
    if found is None:
        wait(run)
    return found


def answered(
    run: UpdateRun, *, readiness: bool = False, gates: bool = False, removed_apis: tuple[str, ...] = ()
) -> PlanAnswers | None:
    """The answer to this question. Without one, it is asked."""
    questions, answers = run.status.questions, run.status.answers
    covered = (
        questions is not None
        and questions.readiness >= readiness
        and questions.gates >= gates
        and set(questions.removed_apis) >= set(removed_apis)
    )
    if covered and answers is not None and not is_open(run.status) and _is_fresh(answers, run.now):
        return answers
    if not covered or not is_open(run.status):
        ask(run, readiness=readiness, gates=gates, removed_apis=removed_apis)
    return None


def wait(run: UpdateRun) -> None:
    """Wait for the answer."""
    run.wait(
        "AwaitingAnswer",
        f"being looked up: {_asked(run.status.questions)}",
        remedy="if this lasts, see the log of the leading controller-manager",
    )


def use_up(run: UpdateRun) -> None:
    """Remove the question from the status: its answer has been acted on."""
    run.status = run_lifecycle.without_questions(run.status)


def still_holds(run: UpdateRun) -> bool:
    """Whether the answer about readiness that was used up last is recent enough to act on."""
    answers = run.status.answers
    return (
        run.status.questions is None
        and answers is not None
        and bool(answers.readiness)
        and _is_fresh(answers, run.now)
    )


def _asked(questions: PlanQuestions | None) -> str:
    """What a question is about, for people."""
    if questions is None:
        return ""
    about = {
        "the readiness of the controllers": questions.readiness,
        "the gates": questions.gates,
        "the APIs that the version removes": bool(questions.removed_apis),
    }
    return ", ".join(text for text, is_asked in about.items() if is_asked)


def _last_number(status: PlanStatus) -> int:
    return max(
        status.questions.number if status.questions else 0, status.answers.number if status.answers else 0
    )


def _is_fresh(answers: PlanAnswers, now: float) -> bool:
    return answers.time is None or abs(now - moment(answers.time)) <= OLDEST
