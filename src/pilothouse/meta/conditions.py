"""Status conditions: lists of ``{type, status, reason, message, lastTransitionTime}``, one entry per type.

    ready = {"type": "Ready", "status": "True", "reason": "AllUp", "message": ""}
    status["conditions"] = with_condition(status.get("conditions"), ready, now=moment)

``lastTransitionTime`` changes only with ``status``. Functions return new lists, or the same list if nothing
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Condition = dict[str, Any]


def find_condition(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> Mapping[str, Any] | None:
    """The condition of this type, or None."""
    for condition in conditions or ():
        if condition.get("type") == kind:
            return condition
    return None


def condition_is(conditions: Iterable[Mapping[str, Any]] | None, kind: str, status: str = "True") -> bool:
    """True if there is a condition of this type with this status."""
    found = find_condition(conditions, kind)
    return found is not None and found.get("status") == status


def with_condition(
    conditions: Sequence[Condition] | None, condition: Mapping[str, Any], *, now: str
) -> list[Condition]:
    """The list with this condition set, at ``now`` (RFC 3339) unless it has a ``lastTransitionTime``."""
    old = list(conditions or ())
    for index, present in enumerate(old):
        if present.get("type") != condition["type"]:
            continue
        merged = {**present, **condition}
        if present.get("status") == condition["status"] and "lastTransitionTime" in present:
            merged["lastTransitionTime"] = present["lastTransitionTime"]
        else:
            merged["lastTransitionTime"] = condition.get("lastTransitionTime", now)
        if merged == present:
            return conditions if isinstance(conditions, list) else old
        return [*old[:index], merged, *old[index + 1 :]]
    return [*old, {**condition, "lastTransitionTime": condition.get("lastTransitionTime", now)}]


def without_condition(conditions: Sequence[Condition] | None, kind: str) -> list[Condition]:
    """The list without this type."""
    return [condition for condition in conditions or () if condition.get("type") != kind]
