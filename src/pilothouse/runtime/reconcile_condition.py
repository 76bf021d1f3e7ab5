"""The condition that the runtime sets on a reconciled object: whether its controller waits, or can't decide.

    @controller(StatefulSet, owns=Pod, condition="Reconciled")

While the controller waits or can't decide, the condition is ``False`` with a reason and a message; afterwards
it is ``True``. An object that never had to wait never gets it, which saves a write. A controller without a
condition reports itself what it waits for; if it raises, its object gets the condition
``pilothouse.io/<controller>`` until a decision succeeds, or, if its kind has no conditions, an event.
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


def intents_with_condition(
    intents: Sequence[Intent], seen: Object, controller: Controller, *, now: float
) -> Sequence[Intent]:
    """The intents, with the condition added to the status that they set, or to the current one."""
    kind = _kind(seen, controller)
    if not kind:
        return intents
    wait = next((intent for intent in intents if isinstance(intent, Wait)), None)
    condition = {"status": "True", "reason": WELL, "message": ""}
    if wait is not None and controller.condition:
        message = f"{wait.because}; {wait.remedy}" if wait.remedy else wait.because
        condition = {"status": "False", "reason": wait.reason, "message": message}
    return _settled(intents, seen, kind, condition, now)


def intents_after_error(
    problem: str, seen: Object, controller: Controller, *, now: float
) -> Sequence[Intent]:
    """The intents for an object whose decision function raised."""
    event = [RecordEvent(seen, event=BROKEN, because=problem, warning=True)]
    kind = _kind(seen, controller)
    if not kind:
        return event
    try:
        return _settled([], seen, kind, {"status": "False", "reason": BROKEN, "message": problem}, now)
    except Exception:
        # Malformed conditions may be the reason.
        log.exception("%s: %r can't have the condition %s", controller.name, seen, kind)
        return event


def _kind(seen: Object, controller: Controller) -> str:
    """The type of the condition; empty if there can be none."""
    if controller.condition:
        return controller.condition
    if controller.primary == EVERY:
        return ""  # Only its metadata is cached, so its status can't be written.
    has_some = seen.noun in CONDITIONED or isinstance(seen.status.get("conditions"), list)
    return f"pilothouse.io/{controller.name}" if has_some else ""


def _settled(
    intents: Sequence[Intent], seen: Object, kind: str, condition: Tree, now: float
) -> Sequence[Intent]:
    position, status = len(intents), dict(seen.status)
    because = condition["message"] or "the controller no longer waits"
    for index, intent in enumerate(intents):
        if isinstance(intent, SetStatus) and intent.seen == seen:
            position, status, because = index, intent.status, intent.because
            break
    before = status.get("conditions")
    if condition["status"] == "True" and find_condition(before, kind) is None:
        return intents
    conditions = with_condition(before, {"type": kind, **condition}, now=format_time(now))
    if conditions == before:
        return intents
    update = SetStatus(seen, {**status, "conditions": conditions}, because=because)
    return [*intents[:position], update, *intents[position + 1 :]]
