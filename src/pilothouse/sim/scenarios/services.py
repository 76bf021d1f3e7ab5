"""A service whose pods are created and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pilothouse.api.kind_names import EndpointSlice, Pod, Service
from pilothouse.api.objects import Tree
from pilothouse.client.api import Api
from pilothouse.controllers.endpoints import endpoints
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import every
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import SPACE, change_spec, create, delete, given_space, pod


def service_users(rng: Random) -> Sequence[UserAction]:
    doing = [given_space(), UserAction(1, "create the service web", create(Service, _service("web")))]
    for _ in range(rng.randint(3, 8)):
        after, number = rng.uniform(0, 20), rng.randint(0, 3)
        if rng.random() < 0.65:
            doing.append(UserAction(after, f"create pod p{number}", create(Pod, pod(f"p{number}"))))
        else:
            doing.append(UserAction(after, f"delete pod p{number}", delete(Pod, f"p{number}", SPACE)))
    if rng.random() < 0.5:
        change = change_spec(Service, "web", {"selector": {"app": "other"}})
        doing.append(UserAction(rng.uniform(0, 20), "have web select other pods", change))
    return doing


async def services_settled(api: Api) -> str:
    """The slices of each service name exactly the ready pods that it selects."""
    pods = (await api.list(Pod, SPACE)).objects
    slices = (await api.list(EndpointSlice, SPACE)).objects
    for service in (await api.list(Service, SPACE)).objects:
        chosen = service.spec["selector"].items()
        wanted = {one.name for one in pods if chosen <= one.labels.items() and one.is_true("Ready")}
        named = {
            endpoint["targetRef"]["name"]
            for one in slices
            if one.labels.get("kubernetes.io/service-name") == service.name
            for endpoint in one.get("endpoints") or ()
            if endpoint["conditions"]["ready"]
        }
        if wanted != named:
            return f"service {service.name} names {sorted(named)}, and {sorted(wanted)} are ready"
    return ""


def _service(name: str) -> Tree:
    return {
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }


SERVICES = Scenario(
    "services", (endpoints, garbage, service_accounts), service_users, services_settled, every()
)
