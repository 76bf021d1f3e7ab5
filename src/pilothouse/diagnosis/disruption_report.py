"""Disruption budgets and who holds them: the reasoning of ``pilothouse disruptions``.

    budgets = budget_reports(budgets, pods)     # each with the pods that are down, by whom and why
    as_table(budgets, now=clock.now())

A pod is listed if it is taken down on purpose (it has the condition ``DisruptionTarget``, or is among the
``disruptedPods`` of its budget), and also if it is down for another reason: either way it counts against its
budget. Pods without a budget are listed if they are taken down on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pilothouse.api.disruption_target import covering, disruption_of
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import ended, healthy, trouble
from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.base.terminal_text import escape_control_characters

_HEADINGS: Final = ("NAMESPACE", "BUDGET", "ALLOWED", "HEALTHY", "POD", "STATE", "BY", "SINCE", "WHY")
_NONE: Final = "-"


class PodDown(msgspec.Struct, frozen=True):
    """A pod that is down, or is about to be."""

    name: str
    state: str
    """Terminating, TakenDown or NotReady."""
    by: str = ""
    """Who takes it down on purpose; empty if no one does."""
    because: str = ""
    since: str = ""
    """RFC 3339."""


class BudgetReport(msgspec.Struct, frozen=True):
    """A disruption budget, and the pods that count against it."""

    namespace: str
    name: str
    """Empty for pods that have no budget."""
    allowed: int = 0
    healthy: int = 0
    expected: int = 0
    down: tuple[PodDown, ...] = ()


def budget_reports(budgets: Iterable[Object], pods: Iterable[Object]) -> list[BudgetReport]:
    """By namespace and name; last in each namespace, the pods without a budget."""
    spaces: dict[str, list[Object]] = {}
    for budget in budgets:
        spaces.setdefault(budget.namespace, []).append(budget)
    down: dict[tuple[str, str], list[PodDown]] = {}
    for pod in sorted(pods, key=lambda each: each.key):
        found = covering(pod, spaces.get(pod.namespace, ()))
        for budget in found:
            if (one := _down(pod, budget)) is not None:
                down.setdefault(budget.key, []).append(one)
        if not found and disruption_of(pod) is not None and (one := _down(pod, None)) is not None:
            down.setdefault((pod.namespace, ""), []).append(one)
    reports = [
        BudgetReport(
            budget.namespace,
            budget.name,
            budget.status.get("disruptionsAllowed", 0),
            budget.status.get("currentHealthy", 0),
            budget.status.get("expectedPods", 0),
            tuple(down.get(budget.key, ())),
        )
        for each in spaces.values()
        for budget in each
    ]
    reports += [BudgetReport(space, "", down=tuple(each)) for (space, name), each in down.items() if not name]
    return sorted(reports, key=lambda each: (each.namespace, not each.name, each.name))


def as_table(reports: Sequence[BudgetReport], *, now: float) -> str:
    """A line for each pod that is down, and one for each budget without such a pod."""
    if not reports:
        return "There are no disruption budgets, and no pod is taken down on purpose."
    found = (row for report in reports for row in _rows(report, now))
    rows = [_HEADINGS, *(tuple(map(escape_control_characters, row)) for row in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _rows(report: BudgetReport, now: float) -> Iterator[tuple[str, ...]]:
    budget = (report.namespace, report.name, str(report.allowed), f"{report.healthy}/{report.expected}")
    if not report.name:
        budget = (report.namespace, _NONE, _NONE, _NONE)
    if not report.down:
        yield (*budget, _NONE, "", "", "", "")
    for pod in report.down:
        yield (*budget, pod.name, pod.state, pod.by or _NONE, _age(pod.since, now), pod.because)


def _down(pod: Object, budget: Object | None) -> PodDown | None:
    """None if the pod is up and stays so."""
    entries = (budget.status.get("disruptedPods") or {}) if budget is not None else {}
    on_purpose = disruption_of(pod)
    if ended(pod) or (healthy(pod) and on_purpose is None and pod.name not in entries):
        return None
    state = (
        "Terminating" if pod.deleting else "TakenDown" if on_purpose or pod.name in entries else "NotReady"
    )
    if on_purpose is not None:
        return PodDown(pod.name, state, on_purpose.by, on_purpose.because, on_purpose.since)
    if pod.deleting:
        # Deleted by other means than an eviction, as by kubectl delete or its set.
        return PodDown(pod.name, state, since=pod.deletion_timestamp or "")
    if healthy(pod):
        return PodDown(pod.name, state, since=entries[pod.name])
    since = (pod.condition("Ready") or {}).get("lastTransitionTime") or format_time(pod.created)
    return PodDown(pod.name, state, because=trouble(pod).sentence, since=since)


def _age(moment: str, now: float) -> str:
    try:
        return human_age(max(0.0, now - parse_time(moment))) if moment else _NONE
    except ValueError:
        return _NONE
