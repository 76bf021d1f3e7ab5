"""Pods that are taken down on purpose: by whom, why and since when, from the condition ``DisruptionTarget``.

    condition = disruption_condition("drains", "node w1 is updated to v1.31.2")
    found = disruption_of(pod)       # Disruption(by="drains", because="node w1 is …", since="2026-…")
    budgets = covering(pod, budgets) # the disruption budgets that select the pod

An Eviction carries who and why in two annotations. Our API server writes them into the condition together
with the deletion; Kubernetes ignores them and writes a message of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.meta.selectors import LabelSelector, SelectorError

DISRUPTION_TARGET: Final = "DisruptionTarget"
EVICTED: Final = "EvictionByEvictionAPI"
"""The reason in the condition of an evicted pod, as in Kubernetes."""
TAKEN_DOWN: Final = "DisruptionByController"
"""The reason in the condition of a pod that a controller restarts or replaces without an eviction."""
EVICTED_BY: Final = "pilothouse.io/evicted-by"
EVICTED_BECAUSE: Final = "pilothouse.io/evicted-because"
_LONGEST: Final = 1024


class Disruption(msgspec.Struct, frozen=True):
    """Who takes a pod down, why, and since when (RFC 3339)."""

    by: str
    because: str
    since: str = ""


def disruption_message(by: str, because: str) -> str:
    """The message of the condition."""
    return f"{by}: {because}"[:_LONGEST]


def disruption_condition(by: str, because: str, *, reason: str = TAKEN_DOWN) -> Tree:
    """The condition of a pod that is taken down, without a time."""
    return {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": disruption_message(by, because),
    }


def disruption_of(pod: Object) -> Disruption | None:
    """Who takes this pod down on purpose; None if nothing says so."""
    condition = pod.condition(DISRUPTION_TARGET) or {}
    if condition.get("status") != "True":
        return None
    by, _, because = str(condition.get("message") or "").partition(": ")
    return Disruption(
        by or str(condition.get("reason") or ""), because, condition.get("lastTransitionTime", "")
    )


def covering(pod: Object, budgets: Iterable[Object]) -> list[Object]:
    """The disruption budgets among these, of its namespace, that select a pod."""
    return [budget for budget in budgets if budget.namespace == pod.namespace and _selects(budget, pod)]


def _selects(budget: Object, pod: Object) -> bool:
    selector = budget.spec.get("selector")
    try:
        return selector is not None and LabelSelector.from_object(selector).matches(pod.labels)
    except SelectorError:
        # The status of the budget says so; the server can't apply it either.
        return False
