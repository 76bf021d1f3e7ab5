"""All scenarios at once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pilothouse.client.api import Api
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.endpoints import endpoints
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import every
from pilothouse.controllers.namespaces import namespaces
from pilothouse.controllers.node_lifecycle import node_lifecycle
from pilothouse.controllers.orphaned_pods import stranded_pods
from pilothouse.controllers.root_certificates import root_certificates
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.budgets import budget_users, budgets_settled
from pilothouse.sim.scenarios.namespace_churn import namespace_users, namespaces_settled
from pilothouse.sim.scenarios.nodes import nodes_settled
from pilothouse.sim.scenarios.owner_references import owner_users, owners_settled
from pilothouse.sim.scenarios.services import service_users, services_settled
from pilothouse.sim.scenarios.sets import FRAIL


def house_users(rng: Random) -> Sequence[UserAction]:
    others = [namespace_users(rng), service_users(rng)[1:], owner_users(rng)[1:]]
    first, *doing = budget_users(rng)
    for each in others:
        doing += each
    rng.shuffle(doing)
    return [first, *doing[:14]]


async def house_settled(api: Api) -> str:
    for settled in (nodes_settled, budgets_settled, services_settled, namespaces_settled, owners_settled):
        if problem := await settled(api):
            return problem
    return ""


HOUSE = Scenario(
    "house",
    (
        root_certificates("the authority"),
        scheduling,
        stranded_pods,
        disruption_budgets,
        endpoints,
        garbage,
        namespaces,
        node_lifecycle,
        service_accounts,
        stateful_sets,
    ),
    house_users,
    house_settled,
    every(),
    managers=3,
    timing=FRAIL,
)
