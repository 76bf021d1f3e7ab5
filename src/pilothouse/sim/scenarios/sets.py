"""Two stateful sets and their pods."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pilothouse.api.kind_names import Pod, StatefulSet
from pilothouse.api.objects import Tree
from pilothouse.client.api import Api, Propagation
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import SPACE, change_spec, create, delete, given_space
from pilothouse.sim.simulated_node import NodeTiming


def set_users(rng: Random) -> Sequence[UserAction]:
    """Two sets are created, scaled, updated, deleted and created again; pods are deleted by hand."""
    doing = [given_space()]
    for name, policy in (("web", "OrderedReady"), ("log", "Parallel")):
        replicas = rng.randint(1, 4)
        do = create(StatefulSet, _set(name, replicas, policy))
        doing.append(UserAction(2, f"create {name} of {replicas}", do))
    for _ in range(rng.randint(2, 6)):
        doing.append(_set_action(rng))
    return doing


def _set_action(rng: Random) -> UserAction:
    name, policy = rng.choice((("web", "OrderedReady"), ("log", "Parallel")))
    after = rng.uniform(1, 40)
    number = rng.randint(0, 4)
    match rng.choice(("scale", "scale", "update", "pod", "delete", "again")):
        case "scale":
            do = change_spec(StatefulSet, name, {"replicas": number})
            return UserAction(after, f"scale {name} to {number}", do)
        case "update":
            template = {"metadata": {"annotations": {"version": str(rng.randint(1, 99))}}}
            return UserAction(after, f"update {name}", change_spec(StatefulSet, name, {"template": template}))
        case "pod":
            pod = f"{name}-{number}"
            return UserAction(after, f"delete pod {pod}", delete(Pod, pod, SPACE))
        case "delete":
            how: Propagation = rng.choice(("Foreground", "Background"))
            return UserAction(after, f"delete {name}, {how}", delete(StatefulSet, name, SPACE, how))
        case _:
            do = create(StatefulSet, _set(name, number, policy))
            return UserAction(after, f"create {name} of {number}", do)


async def sets_settled(api: Api) -> str:
    """Each set has its pods, ready and of its latest revision, and no set has left any."""
    pods = {pod.name: pod for pod in (await api.list(Pod, SPACE)).objects}
    for one in (await api.list(StatefulSet, SPACE)).objects:
        version = one.at("spec", "template", "metadata", "annotations", default={}).get("version")
        for number in range(one.spec["replicas"]):
            pod = pods.pop(f"{one.name}-{number}", None)
            if pod is None:
                return f"pod {one.name}-{number} is missing"
            if pod.deleting or not pod.is_true("Ready"):
                return f"pod {pod.name} is not ready"
            if pod.annotations.get("version") != version:
                return f"pod {pod.name} is of version {pod.annotations.get('version')}, not {version}"
            if pod.controller is None or pod.controller["uid"] != one.uid:
                return f"pod {pod.name} has another owner"
        if one.deleting or one.status.get("readyReplicas", 0) != one.spec["replicas"]:
            return f"{one.name} says {one.status}"
    left = [name for name, pod in pods.items() if pod.owners]
    return f"pods are left: {', '.join(left)}" if left else ""


def _set(name: str, replicas: int, policy: str) -> Tree:
    labels = {"app": name}
    return {
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": policy,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "app:1"}]},
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }
            ],
        },
    }


FRAIL = NodeTiming(failing=0.15)
"""Some pods fail to start and must be replaced."""

SETS = Scenario(
    "sets",
    (stateful_sets, garbage, service_accounts),
    set_users,
    sets_settled,
    (*PROMISES["stateful-sets"], *PROMISES["garbage"]),
    timing=FRAIL,
)
