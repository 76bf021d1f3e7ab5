"""Namespaces that are created, filled, deleted and created again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pilothouse.api.kind_names import ConfigMap, Namespace, ServiceAccount
from pilothouse.client.api import Api
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.namespaces import namespaces
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import create, delete, namespace


def namespace_users(rng: Random) -> Sequence[UserAction]:
    doing: list[UserAction] = []
    for _ in range(rng.randint(4, 10)):
        after, name = rng.uniform(0, 30), rng.choice(("red", "green"))
        match rng.choice(("create", "create", "fill", "fill", "delete")):
            case "create":
                what, do = f"create {name}", create(Namespace, namespace(name))
            case "fill":
                number = rng.randint(0, 3)
                tree = {"metadata": {"name": f"c{number}", "namespace": name}, "data": {"a": "b"}}
                what, do = f"create {name}/c{number}", create(ConfigMap, tree)
            case _:
                what, do = f"delete {name}", delete(Namespace, name)
        doing.append(UserAction(after, what, do))
    return doing


async def namespaces_settled(api: Api) -> str:
    """No namespace is being deleted, and each has its service account."""
    accounts = {one.namespace for one in (await api.list(ServiceAccount)).objects if one.name == "default"}
    for one in (await api.list(Namespace)).objects:
        if one.deleting:
            return f"the namespace {one.name} is still being deleted: {one.status}"
        if one.name not in accounts:
            return f"the namespace {one.name} has no default service account"
    return ""


NAMESPACES = Scenario(
    "namespaces",
    (namespaces, service_accounts, garbage),
    namespace_users,
    namespaces_settled,
    (*PROMISES["namespaces"], *PROMISES["garbage"]),
    nodes=0,
)
