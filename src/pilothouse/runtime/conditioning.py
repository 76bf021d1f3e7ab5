"""An object that waits says so: the condition that the runtime keeps for a controller.

    @controller(StatefulSet, owns=Pod, condition="Reconciled")

While the controller waits, or can't decide, the object has that condition with status ``False``, the reason and a sentence.
When it goes on, the condition turns ``True``. An object that never had to wait never gets it: no write for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.api.objects import Object, Tree
from pilothouse.base.times import format_time
from pilothouse.meta.conditions import find_condition, with_condition
from pilothouse.runtime.intents import Intent, SetStatus, Wait

WELL = "AsDecided"
BROKEN = "DecisionFailed"


def conditioned(intents: Sequence[Intent], seen: Object, kind: str, *, now: float) -> list[Intent]:
    """The intents, with the condition as they make it: in the status they set, or one that is set besides."""
    wait = next((intent for intent in intents if isinstance(intent, Wait)), None)
    if wait is None:
        return _settled(intents, seen, kind, {"status": "True", "reason": WELL, "message": ""}, now)
    told = {"status": "False", "reason": wait.reason, "message": _sentence(wait)}
    return _settled(intents, seen, kind, told, now)


def broken(problem: str, seen: Object, kind: str, *, now: float) -> list[Intent]:
    """What to do for an object that can't be decided about."""
    return _settled([], seen, kind, {"status": "False", "reason": BROKEN, "message": problem}, now)


def _settled(intents: Sequence[Intent], seen: Object, kind: str, told: Tree, now: float) -> list[Intent]:
    place, status = len(intents), dict(seen.status)
    because = told["message"] or "nothing is waited for any more"
    for index, intent in enumerate(intents):
        if isinstance(intent, SetStatus) and intent.seen == seen:
            place, status, because = index, intent.status, intent.because
            break
    before = status.get("conditions")
    if told["status"] == "True" and find_condition(before, kind) is None:
        return list(intents)
    conditions = with_condition(before, {"type": kind, **told}, now=format_time(now))
    if conditions == before:
        return list(intents)
    spoken = SetStatus(seen, {**status, "conditions": conditions}, because=because)
    return [*intents[:place], spoken, *intents[place + 1 :]]


def _sentence(wait: Wait) -> str:
    return f"{wait.because}; {wait.remedy}" if wait.remedy else wait.because
