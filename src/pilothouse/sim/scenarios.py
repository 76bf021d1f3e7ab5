"""What users do to our controllers, drawn by a seed, and how the world has to look when it has come to rest.

    SCENARIOS["sets"]                # a Scenario for simulate()

What has to be is said by what is asked for in the end, and not by what was done on the way: so a run with some of the actions
left out is judged as well as one with all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Final

from pilothouse.api.nouns import (
    ConfigMap,
    EndpointSlice,
    Namespace,
    Node,
    Noun,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    Secret,
    Service,
    ServiceAccount,
    StatefulSet,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.client.rest import Api, Propagation
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.endpoints import endpoints
from pilothouse.controllers.garbage import garbage
from pilothouse.controllers.namespaces import namespaces
from pilothouse.controllers.node_lifecycle import node_lifecycle
from pilothouse.controllers.promises import PROMISES, every
from pilothouse.controllers.root_certificates import root_certificates
from pilothouse.controllers.scheduling.deciding import scheduling
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.deciding import stateful_sets
from pilothouse.controllers.storage.claims import claims
from pilothouse.controllers.storage.protection import claim_protection, volume_protection
from pilothouse.controllers.storage.volumes import volumes
from pilothouse.controllers.stranded_pods import stranded_pods
from pilothouse.sim.fleet import Action, Scenario

_SPACE: Final = "db"
_PERSISTENT: Final = 30
Do = Callable[[Api], Awaitable[object]]


def set_users(rng: Random) -> Sequence[Action]:
    """Two sets are made, scaled, updated, deleted and made again; pods are deleted by hand."""
    doing = [Action(15, f"create the namespace {_SPACE}", _create(Namespace, _namespace(_SPACE)))]
    for name, policy in (("web", "OrderedReady"), ("log", "Parallel")):
        replicas = rng.randint(1, 4)
        doing.append(
            Action(2, f"create {name} of {replicas}", _create(StatefulSet, _set(name, replicas, policy)))
        )
    for _ in range(rng.randint(2, 6)):
        doing.append(_set_action(rng))
    return doing


def _set_action(rng: Random) -> Action:
    name, policy = rng.choice((("web", "OrderedReady"), ("log", "Parallel")))
    after = rng.uniform(1, 40)
    number = rng.randint(0, 4)
    match rng.choice(("scale", "scale", "update", "pod", "delete", "again")):
        case "scale":
            return Action(after, f"scale {name} to {number}", _patch(name, {"replicas": number}))
        case "update":
            template = {"metadata": {"annotations": {"version": str(rng.randint(1, 99))}}}
            return Action(after, f"update {name}", _patch(name, {"template": template}))
        case "pod":
            pod = f"{name}-{number}"
            return Action(after, f"delete pod {pod}", lambda api: api.delete(Pod, pod, _SPACE))
        case "delete":
            how: Propagation = rng.choice(("Foreground", "Background"))
            return Action(
                after,
                f"delete {name}, {how}",
                lambda api: api.delete(StatefulSet, name, _SPACE, propagation=how),
            )
        case _:
            return Action(
                after, f"create {name} of {number}", _create(StatefulSet, _set(name, number, policy))
            )


async def sets_settled(api: Api) -> str:
    """Each set has its pods, ready and of its latest revision, and no set has left any."""
    pods = {pod.name: pod for pod in (await api.list(Pod, _SPACE)).objects}
    for one in (await api.list(StatefulSet, _SPACE)).objects:
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
                return f"pod {pod.name} belongs to somebody else"
        if one.deleting or one.status.get("readyReplicas", 0) != one.spec["replicas"]:
            return f"{one.name} says {one.status}"
    left = [name for name, pod in pods.items() if pod.owners]
    return f"pods are left: {', '.join(left)}" if left else ""


def owner_users(rng: Random) -> Sequence[Action]:
    """A family of config maps and secrets, whose heads are deleted in one way or another, and which get new heads."""
    doing: list[Action] = [
        Action(15, f"create the namespace {_SPACE}", _create(Namespace, _namespace(_SPACE)))
    ]
    names = [f"c{number}" for number in range(rng.randint(3, 8))]
    for number, name in enumerate(names):
        parents = rng.sample(names[:number], min(number, rng.randint(0, 2)))
        doing.append(
            Action(rng.uniform(0, 3), f"create {name} of {parents or 'nobody'}", _child(name, parents))
        )
    for _ in range(rng.randint(4, 10)):
        after, name, other = rng.uniform(0, 12), rng.choice(names), rng.choice(names)
        kind = rng.random()
        if kind < 0.35:
            doing.append(Action(after, f"create {name} of {other}", _child(name, [other])))
        elif kind < 0.6:
            doing.append(Action(after, f"have {name} belong to {other} too", _adopt(name, other)))
        else:
            how: Propagation = rng.choice(("Background", "Foreground", "Orphan"))
            doing.append(Action(after, f"delete {name}, {how}", _delete_head(name, how)))
    return doing


async def owners_settled(api: Api) -> str:
    """Nothing is left of which all owners are gone, and nothing is still going."""
    found = [*(await api.list(ConfigMap, _SPACE)).objects, *(await api.list(Secret, _SPACE)).objects]
    uids = {one.uid for one in found}
    for one in found:
        if one.deleting:
            return f"{one.name} is still being deleted, held by {one.finalizers}"
        if one.owners and not any(owner["uid"] in uids for owner in one.owners):
            return f"{one.name} is left, and all its owners are gone"
    return ""


def namespace_users(rng: Random) -> Sequence[Action]:
    """Namespaces come, are filled, go, and come again."""
    doing: list[Action] = []
    for _ in range(rng.randint(4, 10)):
        after, name = rng.uniform(0, 30), rng.choice(("red", "green"))
        match rng.choice(("create", "create", "fill", "fill", "delete")):
            case "create":
                doing.append(Action(after, f"create {name}", _create(Namespace, _namespace(name))))
            case "fill":
                number = rng.randint(0, 3)
                tree = {"metadata": {"name": f"c{number}", "namespace": name}, "data": {"a": "b"}}
                doing.append(Action(after, f"create {name}/c{number}", _create(ConfigMap, tree)))
            case _:
                doing.append(Action(after, f"delete {name}", _delete(Namespace, name)))
    return doing


async def namespaces_settled(api: Api) -> str:
    """No namespace is still going, and each has its account."""
    accounts = {one.namespace for one in (await api.list(ServiceAccount)).objects if one.name == "default"}
    for one in (await api.list(Namespace)).objects:
        if one.deleting:
            return f"the namespace {one.name} is still being deleted: {one.status}"
        if one.name not in accounts:
            return f"the namespace {one.name} has no default service account"
    return ""


def service_users(rng: Random) -> Sequence[Action]:
    """A service selects pods that come and go."""
    doing = [Action(15, f"create the namespace {_SPACE}", _create(Namespace, _namespace(_SPACE)))]
    doing.append(Action(1, "create the service web", _create(Service, _service("web"))))
    for _ in range(rng.randint(3, 8)):
        after, number = rng.uniform(0, 20), rng.randint(0, 3)
        if rng.random() < 0.65:
            doing.append(Action(after, f"create pod p{number}", _create(Pod, _pod(f"p{number}"))))
        else:
            doing.append(Action(after, f"delete pod p{number}", _delete(Pod, f"p{number}", _SPACE)))
    if rng.random() < 0.5:
        selector = {"spec": {"selector": {"app": "other"}}}
        doing.append(
            Action(
                rng.uniform(0, 20),
                "have web select other pods",
                lambda api: api.patch(Service, "web", _SPACE, selector),
            )
        )
    return doing


async def services_settled(api: Api) -> str:
    """The slices of each service name exactly the ready pods that it selects."""
    pods = (await api.list(Pod, _SPACE)).objects
    slices = (await api.list(EndpointSlice, _SPACE)).objects
    for service in (await api.list(Service, _SPACE)).objects:
        chosen = service.spec["selector"].items()
        wanted = {pod.name for pod in pods if chosen <= pod.labels.items() and pod.is_true("Ready")}
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


def budget_users(rng: Random) -> Sequence[Action]:
    """Sets under a budget."""
    budget: Tree = {
        "metadata": {"name": "web", "namespace": _SPACE},
        "spec": {"minAvailable": rng.randint(1, 3), "selector": {"matchLabels": {"app": "web"}}},
    }
    doing = list(set_users(rng))
    doing.insert(1, Action(1, "create the budget web", _create(PodDisruptionBudget, budget)))
    return doing


async def budgets_settled(api: Api) -> str:
    """A budget counts the pods that are there."""
    if problem := await sets_settled(api):
        return problem
    pods = (await api.list(Pod, _SPACE)).objects
    for budget in (await api.list(PodDisruptionBudget, _SPACE)).objects:
        healthy = sum(pod.labels.get("app") == "web" and pod.is_true("Ready") for pod in pods)
        if budget.status.get("currentHealthy") != healthy:
            return f"the budget says {budget.status}, and {healthy} pods are healthy"
    return ""


async def nodes_settled(api: Api) -> str:
    """All nodes are ready, and so are the sets."""
    for node in (await api.list(Node)).objects:
        if not node.is_true("Ready") or node.spec.get("taints"):
            return f"node {node.name} is not what it should be: {node.spec.get('taints')}, {node.status['conditions']}"
    return await sets_settled(api)


async def house_settled(api: Api) -> str:
    """All of it."""
    for settled in (nodes_settled, budgets_settled, services_settled, namespaces_settled, owners_settled):
        if problem := await settled(api):
            return problem
    return ""


def house_users(rng: Random) -> Sequence[Action]:
    """Everybody at once."""
    others = [namespace_users(rng), service_users(rng)[1:], owner_users(rng)[1:]]
    first, *doing = budget_users(rng)
    for each in others:
        doing += each
    rng.shuffle(doing)
    return [first, *doing[:14]]


def place_users(rng: Random) -> Sequence[Action]:
    """Pods that need room come and go; there is not always enough."""
    doing = [Action(15, f"create the namespace {_SPACE}", _create(Namespace, _namespace(_SPACE)))]
    for _ in range(rng.randint(5, 12)):
        after, name = rng.uniform(0, 15), f"p{rng.randint(0, 7)}"
        if rng.random() < 0.7:
            cpu = rng.randint(1, 5)
            doing.append(Action(after, f"create pod {name} of {cpu}", _create(Pod, _pod(name, cpu=cpu))))
        else:
            doing.append(Action(after, f"delete pod {name}", _delete(Pod, name, _SPACE)))
    return doing


async def places_settled(api: Api) -> str:
    """Who has a node is ready, and who has none would not fit."""
    pods = (await api.list(Pod, _SPACE)).objects
    free = {node.name: 8 for node in (await api.list(Node)).objects}
    for pod in pods:
        if node := pod.spec.get("nodeName"):
            free[node] -= _cpu(pod)
            if pod.deleting or not pod.is_true("Ready"):
                return f"pod {pod.name} is not ready"
    for pod in pods:
        if not pod.spec.get("nodeName") and _cpu(pod) <= max(free.values()):
            return f"pod {pod.name} has no node, and would fit: {free}"
    return ""


def volume_users(rng: Random) -> Sequence[Action]:
    """Volumes and claims come and go."""
    doing = [Action(15, f"create the namespace {_SPACE}", _create(Namespace, _namespace(_SPACE)))]
    for _ in range(rng.randint(5, 12)):
        after, number, size = rng.uniform(0, 15), rng.randint(0, 3), rng.randint(1, 3)
        match rng.choice(("volume", "volume", "claim", "claim", "delete")):
            case "volume":
                tree = _volume(f"v{number}", size)
                doing.append(
                    Action(after, f"create volume v{number} of {size}Gi", _create(PersistentVolume, tree))
                )
            case "claim":
                tree = _claim(f"c{number}", size)
                doing.append(
                    Action(after, f"create claim c{number} of {size}Gi", _create(PersistentVolumeClaim, tree))
                )
            case _:
                name = f"c{number}"
                doing.append(
                    Action(after, f"delete claim {name}", _delete(PersistentVolumeClaim, name, _SPACE))
                )
    return doing


async def volumes_settled(api: Api) -> str:
    """No claim waits beside a volume that would do, and each that has one is known to it."""
    held = {one.name: one for one in (await api.list(PersistentVolume)).objects}
    waiting = []
    for claim in (await api.list(PersistentVolumeClaim, _SPACE)).objects:
        if claim.status.get("phase") != "Bound":
            waiting.append(claim)
            continue
        volume = held.get(claim.spec["volumeName"])
        if volume is None or volume.at("spec", "claimRef", "uid") != claim.uid:
            return f"claim {claim.name} is bound to {claim.spec['volumeName']}, which does not know it"
    free = [one for one in held.values() if not one.spec.get("claimRef") and not one.deleting]
    for claim in waiting:
        for volume in free:
            if _size(claim.at("spec", "resources", "requests", "storage")) <= _size(
                volume.at("spec", "capacity", "storage")
            ):
                return f"claim {claim.name} waits, and volume {volume.name} would do"
    return ""


_SCENARIOS = (
    Scenario(
        "sets",
        (stateful_sets, garbage, service_accounts),
        set_users,
        sets_settled,
        (*PROMISES["stateful-sets"], *PROMISES["garbage"]),
    ),
    Scenario(
        "owners", (garbage, service_accounts), owner_users, owners_settled, PROMISES["garbage"], nodes=0
    ),
    Scenario(
        "namespaces",
        (namespaces, service_accounts, garbage),
        namespace_users,
        namespaces_settled,
        (*PROMISES["namespaces"], *PROMISES["garbage"]),
        nodes=0,
    ),
    Scenario("services", (endpoints, garbage, service_accounts), service_users, services_settled, every()),
    Scenario(
        "budgets",
        (disruption_budgets, stateful_sets, garbage, service_accounts),
        budget_users,
        budgets_settled,
        every(),
    ),
    Scenario(
        "nodes",
        (node_lifecycle, stateful_sets, garbage, service_accounts),
        set_users,
        nodes_settled,
        every(),
        nodes=2,
    ),
    Scenario(
        "places", (scheduling, garbage, service_accounts), place_users, places_settled, every(), nodes=3
    ),
    Scenario(
        "volumes",
        (claims, volumes, claim_protection, volume_protection, service_accounts),
        volume_users,
        volumes_settled,
        PROMISES["claims"],
        nodes=0,
    ),
    Scenario(
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
    ),
)
SCENARIOS: Final[Mapping[str, Scenario]] = {each.name: each for each in _SCENARIOS}


def _create(noun: Noun, tree: Tree) -> Do:
    return lambda api: api.create(noun, tree)


def _delete(noun: Noun, name: str, namespace: str = "") -> Do:
    return lambda api: api.delete(noun, name, namespace)


def _patch(name: str, spec: Tree) -> Do:
    return lambda api: api.patch(StatefulSet, name, _SPACE, {"spec": spec})


def _delete_head(name: str, how: Propagation) -> Do:
    """Only what belongs to nobody is deleted by people: the rest is what the promises are about."""

    async def do(api: Api) -> Object | None:
        found = await api.find(_kind(name), name, _SPACE)
        if found is None or found.owners:
            return None
        return await api.delete(_kind(name), name, _SPACE, propagation=how, uid=found.uid)

    return do


def _child(name: str, parents: Sequence[str]) -> Do:
    async def do(api: Api) -> Object:
        found = [await api.find(_kind(parent), parent, _SPACE) for parent in parents if parent != name]
        owners = [_owner(one) for one in found if one is not None]
        metadata = {"name": name, "namespace": _SPACE, "ownerReferences": owners}
        # As whoever looks after it would: it is made again as soon as there is none.
        for _ in range(_PERSISTENT):
            if await api.find(_kind(name), name, _SPACE) is None:
                break
            await asyncio.sleep(0.2)
        return await api.create(_kind(name), {"metadata": metadata})

    return do


def _adopt(name: str, parent: str) -> Do:
    async def do(api: Api) -> Object | None:
        child = await api.find(_kind(name), name, _SPACE)
        found = await api.find(_kind(parent), parent, _SPACE)
        # Nobody is made a descendant of his own: then neither could go.
        if (
            child is None
            or found is None
            or name <= parent
            or any(o["uid"] == found.uid for o in child.owners)
        ):
            return None
        metadata = {
            "ownerReferences": [*child.owners, _owner(found)],
            "resourceVersion": child.resource_version,
        }
        return await api.patch(_kind(name), name, _SPACE, {"metadata": metadata})

    return do


def _kind(name: str) -> Noun:
    """Half of the family are of another kind, of which is heard by another watch."""
    return Secret if int(name[1:]) % 2 else ConfigMap


def _owner(one: Object) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": one.kind,
        "name": one.name,
        "uid": one.uid,
        "blockOwnerDeletion": True,
    }


def _namespace(name: str) -> Tree:
    return {"metadata": {"name": name}}


def _set(name: str, replicas: int, policy: str) -> Tree:
    labels = {"app": name}
    return {
        "metadata": {"name": name, "namespace": _SPACE},
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


def _pod(name: str, *, cpu: int = 0) -> Tree:
    """One that says what it needs is placed by the scheduler, any other by whoever makes it."""
    container: Tree = {"name": "c", "image": "app:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": str(cpu)}}
    placed = {} if cpu else {"nodeName": "n1"}
    return {
        "metadata": {"name": name, "namespace": _SPACE, "labels": {"app": "web"}},
        "spec": {**placed, "containers": [container]},
    }


def _cpu(pod: Object) -> int:
    return int(pod.spec["containers"][0].get("resources", {}).get("requests", {}).get("cpu", 0))


def _volume(name: str, size: int) -> Tree:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": f"{size}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/{name}"},
        },
    }


def _claim(name: str, size: int) -> Tree:
    return {
        "metadata": {"name": name, "namespace": _SPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": f"{size}Gi"}},
        },
    }


def _size(text: str) -> int:
    return int(text.removesuffix("Gi"))


def _service(name: str) -> Tree:
    return {
        "metadata": {"name": name, "namespace": _SPACE},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
