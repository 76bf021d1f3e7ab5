"""The status of an ApplicationAction, as executors write it.

    yield finished(action, "Failed", "NoExecutor", "nothing carries it out", now=world.now)

The condition ``Complete`` is True when the action has succeeded; its reason and message say how far it is, or
why it ended otherwise.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import FINISHED
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.intents import SetStatus

COMPLETE: Final = "Complete"
"""The type of the condition."""
SERVICE_ACCOUNT: Final = "system:serviceaccount:kube-system:pilothouse-rules"
"""The user that executors act as; it may do what they do, and nothing else."""

End = Literal["Succeeded", "Failed", "Declined"]


def is_finished(action: Object) -> bool:
    return action.status.get("phase") in FINISHED


def running(action: Object, reason: str, message: str, *, now: float, **fields: Any) -> SetStatus:
    """The phase Running, with this reason and these fields."""
    status = {"startTime": format_time(now), **action.status, **fields, "phase": "Running"}
    return _with_reason(action, status, "False", reason, message, now)


def finished(
    action: Object, phase: End, reason: str, message: str, *, now: float, event: str = "", **fields: Any
) -> SetStatus:
    """The last phase, with this reason and these fields."""
    status = {**action.status, **fields, "phase": phase, "completionTime": format_time(now)}
    value = "True" if phase == "Succeeded" else "False"
    return _with_reason(action, status, value, reason, message, now, event)


def reason_of(action: Object) -> str:
    """The reason of the condition; empty if it has none yet."""
    return str((action.condition(COMPLETE) or {}).get("reason", ""))


def _with_reason(
    action: Object, status: dict[str, Any], value: str, reason: str, message: str, now: float, event: str = ""
) -> SetStatus:
    condition = {"type": COMPLETE, "status": value, "reason": reason, "message": message}
    conditions = with_condition(status.get("conditions"), condition, now=format_time(now))
    return SetStatus(action, {**status, "conditions": conditions}, because=message, event=event)
