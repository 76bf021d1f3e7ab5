"""Voluntary disruptions: before a controller takes a pod down, it spends from the disruption budget.

    account = DisruptionAccount(world)
    if blocked := account.why_kept(pod):                  # "disruption budget db needs 2 healthy pods and …"
        yield Wait("DisruptionBudget", because=blocked)
    else:
        yield account.evict(pod, by="drains", because="node w1 is updated to v1.31.2")

    taken = take_down(budget, [pod], by="clusters", because="it gets settings", now=world.now)
    yield from taken.intents                              # before the write that takes the pod down
    if taken.wait is not None: ...                        # then nothing may be taken down

The budget is the ledger. An eviction spends from it in the API server: ``disruptionsAllowed`` goes down and
the pod is listed in ``disruptedPods``, in one write that fails if the budget has changed. Controllers that
take a pod down in another way, as by a restart in place, make the same write. Who takes a pod down and why is
in the pod's condition ``DisruptionTarget``. A pod that is down already costs nothing.

``take_down`` is for the owner of a budget, who may hold it at ``maxUnavailable: 0`` while no pod can be
spared, or while it takes pods down itself: then no one else can spend. What the owner needs is that all pods
are healthy by the budget's own count. That count, unlike the owner's view of the pods, can't miss an eviction
that was made a moment ago: the eviction has changed the budget, and the owner's write fails.

An entry in ``disruptedPods`` ends with the deletion of the pod. The entry of a pod that restarts in place is
removed by ``give_back`` once the pod is back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from pilothouse.api.disruption_target import (
    DISRUPTION_TARGET,
    TAKEN_DOWN,
    covering,
    disruption_condition,
    disruption_message,
)
from pilothouse.api.kind_names import PodDisruptionBudget
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import ended, healthy
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import with_condition, without_condition
from pilothouse.runtime.intents import Delete, Evict, Intent, SeenCondition, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

SPENT: Final = "DisruptionBudget"
"""The reason of a wait for a disruption budget."""


class Taken(msgspec.Struct, frozen=True):
    """What has to be written before pods are taken down; or why they can't be."""

    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None


class DisruptionAccount:
    """What the budgets in a snapshot allow; each eviction lowers it for the rest of the decision."""

    def __init__(self, world: Snapshot) -> None:
        self._world = world
        self._spent: dict[str, int] = {}
        """Evictions of this decision, by the uid of the budget."""

    def why_kept(self, pod: Object) -> str:
        """Why the budget of this pod keeps it from being evicted; empty if it does not."""
        if is_down(pod):
            return ""
        budgets = self._budgets(pod)
        if len(budgets) > 1:
            names = ", ".join(budget.name for budget in budgets)
            return f"it has more than one disruption budget, and an eviction can spend from one only: {names}"
        for budget in budgets:
            if not is_computed(budget):
                return f"disruption budget {budget.name} has not been computed yet"
            if _spares(budget, pod):
                continue
            status = budget.status
            if status.get("disruptionsAllowed", 0) - self._spent.get(budget.uid, 0) < 1:
                needed, there = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
                return f"disruption budget {budget.name} needs {needed} healthy pods and has {there}"
        return ""

    def evict(
        self,
        pod: Object,
        *,
        by: str,
        because: str,
        grace: int | None = None,
        premise: SeenCondition | None = None,
    ) -> Evict:
        """Evict a pod that its budget does not keep."""
        if not is_down(pod):
            for budget in self._budgets(pod):
                if not _spares(budget, pod):
                    self._spent[budget.uid] = self._spent.get(budget.uid, 0) + 1
        return Evict(pod, grace=grace, by=by, because=because, premise=premise)

    def _budgets(self, pod: Object) -> list[Object]:
        return covering(pod, self._world.all(PodDisruptionBudget, pod.namespace))


def is_down(pod: Object) -> bool:
    """True if a pod is being deleted, has ended or has not started: to take it down costs nothing."""
    return pod.deleting or ended(pod) or pod.status.get("phase") == "Pending"


def is_computed(budget: Object) -> bool:
    """True if the status of a budget is that of its present spec."""
    return bool(budget.status.get("observedGeneration", 0) >= budget.generation)


def delete_by_force(
    pod: Object, *, by: str, because: str, now: float, grace: int | None = None
) -> Iterator[Intent]:
    """Delete a pod whatever its budget says; its condition says who did it."""
    yield from _marked(pod, by, because, format_time(now))
    yield Delete(pod, grace=grace, because=because)


def take_down(
    budget: Object | None,
    pods: Sequence[Object],
    *,
    by: str,
    because: str,
    now: float,
    free: Collection[str] = (),
    returned: Collection[Object] = (),
    excused: int = 0,
) -> Taken:
    """Spend from the owner's budget for pods that are about to be taken down, other than by an eviction.

    Pods that are down cost nothing, and so do those whose names are in ``free``. ``returned`` are pods that
    were taken down before and are back: see ``give_back``. ``excused`` is how many pods need not be healthy.
    """
    costly = [pod for pod in pods if healthy(pod) and pod.name not in free]
    if budget is None or budget.deleting:
        if costly:
            return Taken(wait=Wait(SPENT, because="the disruption budget does not exist yet"))
        return Taken(tuple(mark for pod in pods for mark in _marked(pod, by, because, format_time(now))))
    moment, given_back = format_time(now), _entries_of(budget, returned)
    entries = {
        name: time
        for name, time in (budget.status.get("disruptedPods") or {}).items()
        if name not in given_back
    }
    unpaid = [pod.name for pod in costly if pod.name not in entries]
    if unpaid and (why := _why_not_spent(budget, entries, len(given_back), excused)):
        return Taken(wait=Wait(SPENT, because=why))
    times = {**entries, **dict.fromkeys(unpaid, moment)}
    intents = [
        *_booked(budget, times, len(unpaid), because),
        *(mark for pod in pods for mark in _marked(pod, by, because, times.get(pod.name, moment))),
        *_unmarked(returned, moment),
    ]
    return Taken(tuple(intents))


def give_back(budget: Object | None, returned: Collection[Object], *, now: float) -> Iterator[Intent]:
    """Clear the entries and conditions of pods that were taken down by ``take_down`` and are back."""
    if budget is not None and not budget.deleting:
        given_back = _entries_of(budget, returned)
        listed = budget.status.get("disruptedPods") or {}
        kept = {name: time for name, time in listed.items() if name not in given_back}
        names = ", ".join(sorted(given_back))
        yield from _booked(budget, kept, 0, f"back after a disruption: {names}")
    yield from _unmarked(returned, format_time(now))


def is_taken_down(pod: Object, by: str) -> bool:
    """True if the condition of a pod says that ``take_down`` was called for it by this component."""
    condition = pod.condition(DISRUPTION_TARGET) or {}
    is_ours = condition.get("reason") == TAKEN_DOWN and str(condition.get("message")).startswith(f"{by}: ")
    return is_ours and condition.get("status") == "True"


def _why_not_spent(budget: Object, entries: Tree, given_back: int, excused: int) -> str:
    status = budget.status
    if not is_computed(budget):
        return f"disruption budget {budget.name} has not been computed yet"
    if entries:
        names = ", ".join(sorted(entries))
        return f"{names} {'are' if len(entries) > 1 else 'is'} being taken down; one at a time"
    expected, there = status.get("expectedPods", 0), status.get("currentHealthy", 0) + given_back
    if there + excused < expected:
        return f"disruption budget {budget.name} counts {there} healthy pods of {expected}; one at a time"
    return ""


def _entries_of(budget: Object, returned: Collection[Object]) -> set[str]:
    """The returned pods whose entries are those of ``take_down``: an eviction's entry has another time."""
    listed = budget.status.get("disruptedPods") or {}
    marks = {pod.name: (pod.condition(DISRUPTION_TARGET) or {}).get("lastTransitionTime") for pod in returned}
    return {name for name, time in marks.items() if name in listed and listed[name] == time}


def _booked(budget: Object, entries: Tree, spent: int, because: str) -> Iterator[Intent]:
    if entries == (budget.status.get("disruptedPods") or {}):
        return
    status = {**budget.status, "disruptedPods": entries}
    status["disruptionsAllowed"] = max(0, status.get("disruptionsAllowed", 0) - spent)
    if not entries:
        del status["disruptedPods"]
    yield SetStatus(budget, status, because=because)


def _marked(pod: Object, by: str, because: str, moment: str) -> Iterator[Intent]:
    if pod.deleting:
        return
    condition = pod.condition(DISRUPTION_TARGET) or {}
    if is_taken_down(pod, by) and condition.get("message") == disruption_message(by, because):
        return
    wanted = {**disruption_condition(by, because), "lastTransitionTime": moment}
    others = without_condition(pod.status.get("conditions"), DISRUPTION_TARGET)
    conditions = with_condition(others, wanted, now=moment)
    yield SetStatus(pod, {**pod.status, "conditions": conditions}, because=because)


def _unmarked(pods: Collection[Object], moment: str) -> Iterator[Intent]:
    for pod in pods:
        if pod.is_true(DISRUPTION_TARGET):
            over = {"type": DISRUPTION_TARGET, "status": "False"}
            conditions = with_condition(pod.status.get("conditions"), over, now=moment)
            because = f"pod {pod.name} is back after a disruption"
            yield SetStatus(pod, {**pod.status, "conditions": conditions}, because=because)


def _spares(budget: Object, pod: Object) -> bool:
    """Whether a pod that is not ready costs its budget nothing, by the ``unhealthyPodEvictionPolicy``."""
    if pod.is_true("Ready"):
        return False
    if budget.spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    needed, there = budget.status.get("desiredHealthy", 0), budget.status.get("currentHealthy", 0)
    return bool(0 < needed <= there)
