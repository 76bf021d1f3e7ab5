"""An object that waits, or that can't be decided about, says so: the condition that the runtime keeps for a controller.

    @controller(StatefulSet, owns=Pod, condition="Reconciled")

While the controller waits, or can't decide, the object has that condition with status ``False``, the reason and a sentence.
When it goes on, the condition turns ``True``. An object that never had to wait never gets it: no write for nothing.

Whoever declares no condition tells in his own way what he waits for. But that a decision broke he can't tell: the object then
has the condition ``pilothouse.io/<controller>`` until a decision succeeds, or, if its kind has no conditions, an event.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pilothouse.api.kind_names import CONDITIONED
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import find_condition, with_condition
from pilothouse.runtime.controller import EVERY, Controller
from pilothouse.runtime.intents import Intent, RecordEvent, SetStatus, Wait

WELL = "AsDecided"
BROKEN = "DecisionFailed"

log = logging.getLogger(__name__)


def conditioned(
    intents: Sequence[Intent], seen: Object, controller: Controller, *, now: float
) -> Sequence[Intent]:
    """The intents, with the condition as they make it: in the status they set, or one that is set besides."""
    kind = _kind(seen, controller)
    if not kind:
        return intents
    wait = next((intent for intent in intents if isinstance(intent, Wait)), None)
    if wait is None or not controller.condition:
        return _settled(intents, seen, kind, {"status": "True", "reason": WELL, "message": ""}, now)
    told = {"status": "False", "reason": wait.reason, "message": _sentence(wait)}
    return _settled(intents, seen, kind, told, now)


def broken(problem: str, seen: Object, controller: Controller, *, now: float) -> Sequence[Intent]:
    """What to do for an object that can't be decided about."""
    event = [RecordEvent(seen, event=BROKEN, because=problem, warning=True)]
    kind = _kind(seen, controller)
    if not kind:
        return event
    try:
        return _settled([], seen, kind, {"status": "False", "reason": BROKEN, "message": problem}, now)
    except Exception:
        # Its conditions may be what can't be read.
        log.exception("%s: %r can't have the condition %s", controller.name, seen, kind)
        return event


def _kind(seen: Object, controller: Controller) -> str:
    """The type of the condition; empty where there can be none."""
    if controller.condition:
        return controller.condition
    if controller.primary == EVERY:
        return ""  # Nothing but its metadata is known, so that its status can't be written.
    has_some = seen.noun in CONDITIONED or isinstance(seen.status.get("conditions"), list)
    return f"pilothouse.io/{controller.name}" if has_some else ""


def _settled(intents: Sequence[Intent], seen: Object, kind: str, told: Tree, now: float) -> Sequence[Intent]:
    place, status = len(intents), dict(seen.status)
    because = told["message"] or "nothing is waited for any more"
    for index, intent in enumerate(intents):
        if isinstance(intent, SetStatus) and intent.seen == seen:
            place, status, because = index, intent.status, intent.because
            break
    before = status.get("conditions")
    if told["status"] == "True" and find_condition(before, kind) is None:
        return intents
    conditions = with_condition(before, {"type": kind, **told}, now=format_time(now))
    if conditions == before:
        return intents
    spoken = SetStatus(seen, {**status, "conditions": conditions}, because=because)
    return [*intents[:place], spoken, *intents[place + 1 :]]


def _sentence(wait: Wait) -> str:
    return f"{wait.because}; {wait.remedy}" if wait.remedy else wait.because
