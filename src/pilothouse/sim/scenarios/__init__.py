"""The scenarios: user actions on our controllers, drawn by a seed, and the state that must result.

The expected state follows from what was asked for last, not from what was done on the way: so a run with some
of the actions left out can be judged too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pilothouse.sim.fleet import Scenario
from pilothouse.sim.scenarios.budgets import BUDGETS
from pilothouse.sim.scenarios.cluster_actions import CLUSTERS
from pilothouse.sim.scenarios.elasticsearch_cluster import ELASTIC
from pilothouse.sim.scenarios.everything import HOUSE
from pilothouse.sim.scenarios.machine_drains import DRAINS
from pilothouse.sim.scenarios.namespace_churn import NAMESPACES
from pilothouse.sim.scenarios.node_certificates import JOINING
from pilothouse.sim.scenarios.nodes import NODES
from pilothouse.sim.scenarios.owner_references import OWNERS
from pilothouse.sim.scenarios.rules import RULES
from pilothouse.sim.scenarios.scheduling_pressure import PLACES
from pilothouse.sim.scenarios.services import SERVICES
from pilothouse.sim.scenarios.sets import SETS
from pilothouse.sim.scenarios.update_plans import PLANS
from pilothouse.sim.scenarios.volume_moves import MOVES
from pilothouse.sim.scenarios.volumes import VOLUMES
from pilothouse.sim.scenarios.workload_actions import WORKLOADS

SCENARIOS: Final[Mapping[str, Scenario]] = {
    each.name: each
    for each in (
        *(SETS, OWNERS, NAMESPACES, SERVICES, BUDGETS, NODES, PLACES, VOLUMES, JOINING),
        *(ELASTIC, DRAINS, PLANS, RULES, MOVES, WORKLOADS, CLUSTERS, HOUSE),
    )
}
