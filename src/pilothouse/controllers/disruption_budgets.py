"""PodDisruptionBudgets: how many of the selected pods may be evicted right now.

The API server spends from ``status.disruptionsAllowed`` when it evicts a pod, and notes the pod in
``status.disruptedPods``; such a pod counts as down at once, although its deletion may be observed later. If
it is not deleted after two minutes the eviction has failed and the pod counts again.

``maxUnavailable`` and percentages refer to the replicas of the sets that control the pods, not to the
existing pods. If these are unknown nothing may be evicted, and the condition says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.disruption_target import DISRUPTION_TARGET, TAKEN_DOWN
from pilothouse.api.kind_names import Pod, PodDisruptionBudget, StatefulSet
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.meta.conditions import with_condition
from pilothouse.meta.int_or_percent import scaled
from pilothouse.meta.selectors import LabelSelector, SelectorError
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, RecordEvent, RequeueAfter, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

DELETION_TIMEOUT: Final = 120.0
"""Seconds within which an evicted pod should be deleted."""
ALLOWED: Final = "DisruptionAllowed"


class Unknown(ValueError):
    """The number of expected pods is unknown."""


class Demand(msgspec.Struct, frozen=True):
    """How many pods are expected, how many have to be healthy, and which have no controller."""

    expected: int
    healthy: int
    unmanaged: tuple[str, ...] = ()


def budgets_of_pod(pod: Object, world: Snapshot) -> Names:
    """The budgets that select a pod, or have it among their evicted pods."""
    for budget in world.all(PodDisruptionBudget, pod.namespace):
        if _selects(budget, pod.labels) or pod.name in (budget.status.get("disruptedPods") or {}):
            yield budget.namespace, budget.name


def budgets_of_set(stateful_set: Object, world: Snapshot) -> Names:
    """The budgets that select the pods of a set."""
    labels = stateful_set.at("spec", "template", "metadata", "labels", default={})
    for budget in world.all(PodDisruptionBudget, stateful_set.namespace):
        if _selects(budget, labels):
            yield budget.namespace, budget.name


@controller(PodDisruptionBudget, also={Pod: budgets_of_pod, StatefulSet: budgets_of_set}, standalone=True)
def disruption_budgets(budget: Object, world: Snapshot) -> Iterator[Intent]:
    """Compute how many pods of a budget may be evicted."""
    try:
        pods = _selected(budget, world)
        demand = _demand(budget, pods, world)
    except Unknown as error:
        yield from _fail_safe(budget, str(error), world.now)
        return
    disrupted = _disrupted(budget, pods, world.now)
    healthy = sum(pod.is_true("Ready") and not pod.deleting and pod.name not in disrupted for pod in pods)
    status = _status(budget, demand, healthy, disrupted, world.now)
    remarks = list(_remarks(budget, pods, demand))
    if status != budget.status:
        allowed = status["disruptionsAllowed"]
        because = f"{healthy} pods are healthy and {demand.healthy} have to be, so {allowed} may be evicted"
        yield SetStatus(budget, status, because=because)
        for remark in remarks:
            yield RecordEvent(budget, because=remark.because, event=remark.reason, warning=bool(pods))
    yield from _stayed(budget, pods, disrupted)
    if disrupted:
        first = min(_moment(time) for time in disrupted.values())
        left = max(0.0, first + DELETION_TIMEOUT - world.now)
        yield RequeueAfter(left, because="an evicted pod should be deleted by then")
    yield from remarks


def _selected(budget: Object, world: Snapshot) -> list[Object]:
    selector = budget.spec.get("selector")
    if selector is None:
        return []
    try:
        return world.all(Pod, budget.namespace, LabelSelector.from_object(selector))
    except SelectorError as error:
        raise Unknown(f"spec.selector: {error}") from error


def _selects(budget: Object, labels: Mapping[str, str]) -> bool:
    selector = budget.spec.get("selector")
    try:
        return selector is not None and LabelSelector.from_object(selector).matches(labels)
    except SelectorError:
        # The decision about the budget itself reports it.
        return False


def _demand(budget: Object, pods: Sequence[Object], world: Snapshot) -> Demand:
    least, most = budget.spec.get("minAvailable"), budget.spec.get("maxUnavailable")
    if most is None and isinstance(least, int):
        return Demand(len(pods), least)
    if most is None and least is None:
        return Demand(0, 0)
    expected, unmanaged = _scale(pods, world)
    field, value = ("minAvailable", least) if most is None else ("maxUnavailable", most)
    try:
        share = scaled(value, expected, up=True)
    except ValueError as error:
        raise Unknown(f"spec.{field}: {error}") from error
    return Demand(expected, share if most is None else max(0, expected - share), unmanaged)


def _scale(pods: Sequence[Object], world: Snapshot) -> tuple[int, tuple[str, ...]]:
    """The replicas of the controllers of these pods, and the pods without a controller."""
    scales: dict[str, int] = {}
    unmanaged = []
    for pod in pods:
        owner = pod.controller
        if owner is None:
            unmanaged.append(pod.name)
        elif owner.get("uid") not in scales:
            scales[str(owner.get("uid"))] = _scale_of(pod, owner, world)
    return sum(scales.values()), tuple(unmanaged)


def _scale_of(pod: Object, owner: Mapping[str, Any], world: Snapshot) -> int:
    kind, name = owner.get("kind"), str(owner.get("name"))
    if (owner.get("apiVersion"), kind) != (StatefulSet.api_version, StatefulSet.kind):
        raise Unknown(f"pod {pod.name} is controlled by {kind} {name}, whose number of replicas is unknown")
    found = world.find(StatefulSet, pod.namespace, name)
    if found is None or found.uid != owner.get("uid"):
        raise Unknown(f"pod {pod.name} is controlled by {kind} {name}, which does not exist")
    replicas = found.spec.get("replicas", 1)
    if not isinstance(replicas, int):
        raise Unknown(f"pod {pod.name} is controlled by {kind} {name}, whose spec.replicas is {replicas!r}")
    return replicas


def _disrupted(budget: Object, pods: Sequence[Object], now: float) -> dict[str, str]:
    """The evicted pods whose deletion is still to be observed."""
    listed = budget.status.get("disruptedPods") or {}
    return {
        pod.name: listed[pod.name]
        for pod in pods
        if pod.name in listed and not pod.deleting and _moment(listed[pod.name]) + DELETION_TIMEOUT > now
    }


def _stayed(budget: Object, pods: Sequence[Object], disrupted: Mapping[str, str]) -> Iterator[Intent]:
    """Events for pods that were evicted and not deleted."""
    listed = budget.status.get("disruptedPods") or {}
    for pod in pods:
        # One that is restarted in place is not deleted.
        restarted = (pod.condition(DISRUPTION_TARGET) or {}).get("reason") == TAKEN_DOWN
        if pod.name in listed and pod.name not in disrupted and not pod.deleting and not restarted:
            because = (
                f"pod {pod.name} was evicted within budget {budget.name} but has not been deleted; "
                "it counts again"
            )
            yield RecordEvent(pod, because=because, event="NotDeleted", warning=True)


def _moment(text: Any) -> float:
    """An unreadable time counts as long past: the entry is dropped."""
    try:
        return parse_time(text)
    except ValueError:
        return float("-inf")


def _status(budget: Object, demand: Demand, healthy: int, disrupted: Mapping[str, str], now: float) -> Tree:
    # Without pods nothing is allowed, so that the first ones are safe until the next decision.
    allowed = max(0, healthy - demand.healthy) if demand.expected > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    is_allowed = "True" if allowed else "False"
    status: Tree = {
        **budget.status,
        "observedGeneration": budget.generation,
        "expectedPods": demand.expected,
        "desiredHealthy": demand.healthy,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
        "disruptedPods": dict(disrupted),
        "conditions": _condition(budget, is_allowed, reason, "", budget.generation, now),
    }
    if not disrupted:
        del status["disruptedPods"]
    return status


def _fail_safe(budget: Object, problem: str, now: float) -> Iterator[Intent]:
    """Nothing may be evicted while the budget can't be computed."""
    seen = budget.status.get("observedGeneration", 0)
    status = {
        **budget.status,
        "disruptionsAllowed": 0,
        "conditions": _condition(budget, "False", "SyncFailed", problem, seen, now),
    }
    if status != budget.status:
        yield SetStatus(budget, status, because=f"nothing may be evicted: {problem}")
        yield RecordEvent(budget, because=problem, event="CalculateExpectedPodCountFailed", warning=True)
    yield Wait(
        "SyncFailed",
        because=f"the budget can't be computed: {problem}",
        remedy="set spec.minAvailable to a number, or have the selector select only pods of StatefulSets",
    )


def _condition(
    budget: Object, status: str, reason: str, message: str, generation: int, now: float
) -> list[Tree]:
    condition: Tree = {"type": ALLOWED, "status": status, "reason": reason, "message": message}
    if generation:
        condition["observedGeneration"] = generation
    return with_condition(budget.status.get("conditions"), condition, now=format_time(now))


def _remarks(budget: Object, pods: Sequence[Object], demand: Demand) -> Iterator[Wait]:
    """What is questionable about the budget; reported once per status."""
    if budget.spec.get("minAvailable") is None and budget.spec.get("maxUnavailable") is None:
        neither = "the budget has neither spec.minAvailable nor spec.maxUnavailable"
        because = f"{neither}, so none of its pods can be evicted"
        yield Wait("NothingAsked", because=because, remedy="set one of the two")
    elif not pods:
        remedy = "correct the selector, or create the pods"
        yield Wait("NoPods", because="no pod matches spec.selector", remedy=remedy)
    elif unmanaged := demand.unmanaged:
        more = f" and {len(unmanaged) - 3} more" if len(unmanaged) > 3 else ""
        names = f"{', '.join(unmanaged[:3])}{more}"
        because = f"no controller for {names}, so these pods are not part of the expected number"
        yield Wait("UnmanagedPods", because=because, remedy="set spec.minAvailable to a number")
