"""Budgets: how much rules may do, counted from the ApplicationActions that exist.

    every = counted((spec.budget, GLOBAL_BUDGET), of_object, world, now)
    spent(spec.budget, of_rule, of_object, target, now)        # "" or what is spent
    spent(GLOBAL_BUDGET, every, of_object, target, now)

What counts is when an action was created, so that one that fails has used the budget too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pilothouse.api.kind_names import ApplicationAction
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import FINISHED, RESIZE
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.base.quantity import parse_quantity
from pilothouse.rules.action_targets import ActionTarget
from pilothouse.runtime.snapshot import Snapshot

HOUR: Final = 3600.0
DAY: Final = 86400.0
RULE_BUDGET: Final = ActionBudget(actions_per_hour=600, per_object_per_day=24, concurrent=20)
"""Of a rule that has none, and of one that leaves a field out."""
GLOBAL_BUDGET: Final = ActionBudget(actions_per_hour=3000, per_object_per_day=48, concurrent=100)
"""Of all rules together."""


def with_defaults(budget: ActionBudget | None, defaults: ActionBudget = RULE_BUDGET) -> ActionBudget:
    """The budget with the defaults where it says nothing."""
    if budget is None:
        return defaults
    return ActionBudget(
        actions_per_hour=_first(budget.actions_per_hour, defaults.actions_per_hour),
        per_object_per_day=_first(budget.per_object_per_day, defaults.per_object_per_day),
        growth_per_day=budget.growth_per_day or defaults.growth_per_day,
        concurrent=_first(budget.concurrent, defaults.concurrent),
    )


def counted(
    budgets: Iterable[ActionBudget],
    object_uid: str,
    world: Snapshot,
    now: float,
    aheads: Iterable[float] = (0.0,),
) -> list[Object]:
    """The ApplicationActions that may count in one of these budgets for an object.

    Those that have ended are kept for long, and there may be a hundred thousand of them. ``aheads``: by how
    much the clocks that dated them were ahead of that of ``now``.
    """
    longest = DAY if any(budget.growth_per_day is not None for budget in budgets) else HOUR
    found = [
        *world.lacking(ApplicationAction, "status.completionTime"),
        *world.where(ApplicationAction, "spec.object.uid", object_uid),
    ]
    for ahead in {0.0, *aheads}:
        then = now + ahead
        found += world.created_between(ApplicationAction, then - longest, then + HOUR)
    return list({one.key: one for one in found}.values())


def spent(
    budget: ActionBudget,
    actions: Sequence[Object],
    object_uid: str,
    target: ActionTarget,
    now: float,
    moment: Callable[[float], float] = lambda wall: wall,
) -> str:
    """Why one more action with this target would be too much; empty if it would not be. ``moment`` says when
    actions were created by the clock of ``now``."""

    def age(action: Object) -> float:
        return now - moment(action.created)

    if budget.concurrent is not None:
        running = sum(action.at("status", "phase") not in FINISHED for action in actions)
        if running >= budget.concurrent:
            return f"{running} actions are under way, and at most {budget.concurrent} may be (concurrent)"
    if budget.actions_per_hour is not None:
        count = sum(age(action) < HOUR for action in actions)
        if count >= budget.actions_per_hour:
            limit = budget.actions_per_hour
            return f"{count} actions began within an hour, and at most {limit} may (actionsPerHour)"
    today = [action for action in actions if age(action) < DAY]
    if budget.per_object_per_day is not None:
        count = sum(action.at("spec", "object", "uid") == object_uid for action in today)
        if count >= budget.per_object_per_day:
            limit = budget.per_object_per_day
            return f"{count} actions on the object began within a day, at most {limit} may (perObjectPerDay)"
    if budget.growth_per_day is not None:
        grown = sum(map(growth_of, today))
        if grown + target.growth > parse_quantity(budget.growth_per_day).to_int():
            return f"volumes would grow by more than {budget.growth_per_day} within a day (growthPerDay)"
    return ""


def growth_of(action: Object) -> int:
    """By how many bytes an ApplicationAction lets a volume grow."""
    target = action.at("spec", "target", default={})
    if action.spec.get("action") != RESIZE or "from" not in target or "to" not in target:
        return 0
    try:
        return parse_quantity(target["to"]).to_int() - parse_quantity(target["from"]).to_int()
    except ValueError:
        # Written by others.
        return 0


def _first(value: int | None, default: int | None) -> int | None:
    return default if value is None else value
