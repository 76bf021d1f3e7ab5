"""The status of an ApplicationAction, as executors write it.

    yield finished(action, "Failed", "NoExecutor", "nothing carries it out", now=world.now)

The condition ``Complete`` is True when the action has succeeded; its reason and message say how far it is, or
why it ended otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import CLUSTER_WIDE_RECORDS, FINISHED
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.intents import Intent, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

COMPLETE: Final = "Complete"
"""The type of the condition."""
SERVICE_ACCOUNT: Final = "system:serviceaccount:kube-system:pilothouse-rules"
"""The user that executors act as; it may do what they do, and nothing else."""

START_SECONDS: Final = 600.0
"""How long an action waits until it can begin."""

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


def object_of(action: Object, noun: KindName, world: Snapshot) -> Object | None:
    """The object that it acts on; None if that is gone, or another one has its name. It is in the action's
    own namespace, unless the rule is about a cluster-wide object."""
    reference = action.at("spec", "object", default={})
    namespace = str(reference.get("namespace") or action.namespace) if noun.namespaced else ""
    if noun.namespaced and action.namespace not in (namespace, CLUSTER_WIDE_RECORDS):
        return None
    found = world.find(noun, namespace, str(reference.get("name", "")))
    if found is None or found.deleting or found.uid != reference.get("uid", found.uid):
        return None
    return found


def gone(action: Object, *, now: float) -> SetStatus:
    """Failed, since the object does not exist."""
    reference = action.at("spec", "object", default={})
    namespace = f"{action.namespace}/" if reference.get("kind") != "StoragePool" else ""
    kind = "claim" if reference.get("kind") == "PersistentVolumeClaim" else reference.get("kind", "object")
    message = f"{kind} {namespace}{reference.get('name')} is gone"
    return finished(action, "Failed", "ObjectGone", message, now=now)


def waiting_to_begin(
    action: Object, reason: str, message: str, world: Snapshot, *, remedy: str = ""
) -> Iterator[Intent]:
    """Wait for an object that can't be changed now, for a while."""
    left = action.created + START_SECONDS - world.now
    if left <= 0:
        yield finished(action, "Failed", reason, message, now=world.now, event=reason)
    else:
        yield Wait(reason, because=message, remedy=remedy, seconds=left)


def changed_by(about: Object, *path: str) -> str:
    """Who changed a field, for the end of a message; empty if that is not known."""
    by = next(iter(about.managers(*path)), "")
    return f" by the field manager {by}" if by else ""


def _with_reason(
    action: Object, status: dict[str, Any], value: str, reason: str, message: str, now: float, event: str = ""
) -> SetStatus:
    condition = {"type": COMPLETE, "status": value, "reason": reason, "message": message}
    conditions = with_condition(status.get("conditions"), condition, now=format_time(now))
    return SetStatus(action, {**status, "conditions": conditions}, because=message, event=event)
