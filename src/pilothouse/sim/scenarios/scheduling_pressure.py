"""Pods with requests, on nodes that can't hold all of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pilothouse.api.kind_names import Node, Pod
from pilothouse.api.objects import Object
from pilothouse.client.api import Api
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import every
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import SPACE, create, delete, given_space, pod


def place_users(rng: Random) -> Sequence[UserAction]:
    """Pods with requests are created and deleted; they do not always fit."""
    doing = [given_space()]
    for _ in range(rng.randint(5, 12)):
        after, name = rng.uniform(0, 15), f"p{rng.randint(0, 7)}"
        if rng.random() < 0.7:
            cpu = rng.randint(1, 5)
            doing.append(UserAction(after, f"create pod {name} of {cpu}", create(Pod, pod(name, cpu=cpu))))
        else:
            doing.append(UserAction(after, f"delete pod {name}", delete(Pod, name, SPACE)))
    return doing


async def places_settled(api: Api) -> str:
    """Each bound pod is ready, and no unbound pod would fit."""
    pods = (await api.list(Pod, SPACE)).objects
    free = {node.name: 8 for node in (await api.list(Node)).objects}
    for one in pods:
        if node := one.spec.get("nodeName"):
            free[node] -= _cpu(one)
            if one.deleting or not one.is_true("Ready"):
                return f"pod {one.name} is not ready"
    for one in pods:
        if not one.spec.get("nodeName") and _cpu(one) <= max(free.values()):
            return f"pod {one.name} has no node, and would fit: {free}"
    return ""


def _cpu(pod: Object) -> int:
    return int(pod.spec["containers"][0].get("resources", {}).get("requests", {}).get("cpu", 0))


PLACES = Scenario(
    "places", (scheduling, garbage, service_accounts), place_users, places_settled, every(), nodes=3
)
