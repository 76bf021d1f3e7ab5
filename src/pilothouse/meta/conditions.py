"""Conditions: what a controller says about an object, one entry per type.

    status["conditions"] = with_condition(
        status.get("conditions"), {"type": "Ready", "status": "True", "reason": "AllUp", "message": ""}, now=moment
    )

``lastTransitionTime`` is when ``status`` last changed its value, so it is kept while only reason or message change.
Lists are returned anew, the given ones left alone; an unchanged list is returned as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Condition = dict[str, Any]


def find_condition(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> Mapping[str, Any] | None:
    """The condition of this type, if there is one."""
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
    """The list with this condition set. ``now`` is RFC 3339 text; a ``lastTransitionTime`` given wins over it."""
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
