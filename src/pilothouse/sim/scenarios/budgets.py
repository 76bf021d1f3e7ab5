"""Stateful sets with a disruption budget."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pilothouse.api.kind_names import Pod, PodDisruptionBudget
from pilothouse.api.objects import Tree
from pilothouse.client.api import Api
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import every
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.sets import FRAIL, set_users, sets_settled
from pilothouse.sim.scenarios.user_actions import SPACE, create


def budget_users(rng: Random) -> Sequence[UserAction]:
    budget: Tree = {
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"minAvailable": rng.randint(1, 3), "selector": {"matchLabels": {"app": "web"}}},
    }
    doing = list(set_users(rng))
    doing.insert(1, UserAction(1, "create the budget web", create(PodDisruptionBudget, budget)))
    return doing


async def budgets_settled(api: Api) -> str:
    """Each budget counts the existing pods."""
    if problem := await sets_settled(api):
        return problem
    pods = (await api.list(Pod, SPACE)).objects
    for budget in (await api.list(PodDisruptionBudget, SPACE)).objects:
        healthy = sum(pod.labels.get("app") == "web" and pod.is_true("Ready") for pod in pods)
        if budget.status.get("currentHealthy") != healthy:
            return f"the budget says {budget.status}, and {healthy} pods are healthy"
    return ""


BUDGETS = Scenario(
    "budgets",
    (disruption_budgets, stateful_sets, garbage, service_accounts),
    budget_users,
    budgets_settled,
    every(),
    timing=FRAIL,
)
