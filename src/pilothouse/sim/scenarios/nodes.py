"""Stateful sets on nodes that are lost and come back."""

from __future__ import annotations

from pilothouse.api.kind_names import Node
from pilothouse.client.api import Api
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import every
from pilothouse.controllers.node_lifecycle import node_lifecycle
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.fleet import Scenario
from pilothouse.sim.scenarios.sets import FRAIL, set_users, sets_settled


async def nodes_settled(api: Api) -> str:
    """All nodes are ready, and so are the sets."""
    for node in (await api.list(Node)).objects:
        if not node.is_true("Ready") or node.spec.get("taints"):
            return (
                f"node {node.name} is not what it should be: {node.spec.get('taints')}, "
                f"{node.status['conditions']}"
            )
    return await sets_settled(api)


NODES = Scenario(
    "nodes",
    (node_lifecycle, stateful_sets, garbage, service_accounts),
    set_users,
    nodes_settled,
    every(),
    nodes=2,
    timing=FRAIL,
)
