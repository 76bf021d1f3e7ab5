"""An Elasticsearch cluster that rules act on: its pools are scaled and get other resources, its indices get
more and fewer copies, and its shards are spread evenly; its owner changes the same fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import ApplicationAction, ElasticsearchCluster, Pilot, Pod, StatefulSet
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import REBALANCE, REDUNDANCY, RESOURCES, SCALE
from pilothouse.client.api import Api
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_actions.action_invariants import ACTION_INVARIANTS
from pilothouse.sim.fleet import UserAction
from pilothouse.sim.scenarios.elasticsearch_cluster import ELASTIC, NAME, cluster_settled, pools_of, story
from pilothouse.sim.scenarios.fired_actions import fire
from pilothouse.sim.scenarios.user_actions import SPACE, Do, change_spec

_SETTINGS: Final = {"cluster.routing.rebalance.enable": "none"}
_CONTAINER: Final = "elasticsearch"


def cluster_users(rng: Random) -> Sequence[UserAction]:
    """Rules and the owner of the cluster, in any order."""
    doing = begin(rng)
    doing += [_action(rng, f"a-{number}") for number in range(rng.randint(3, 6))]
    return [*doing, *end_well()]


def every_action_on_clusters(rng: Random) -> Sequence[UserAction]:
    """Each action, one after the other, without any other change."""
    return [
        *begin(rng),
        UserAction(90, "scale up", fire_scale("a-growth", "data", lambda _: 3)),
        UserAction(60, "rebalance", fire_rebalance("a-rebalance")),
        UserAction(60, "two copies", fire_copies("a-copies", 2)),
        UserAction(60, "one copy", fire_copies("a-copy", 1)),
        UserAction(30, "resize the masters", fire_resources("a-resize", "master", "3Gi")),
        UserAction(150, "scale down", fire_scale("a-shrinkage", "data", lambda _: 2)),
        *end_well(),
    ]


def begin(rng: Random) -> list[UserAction]:
    """Create the namespace and the cluster, which rebalances nothing by itself."""
    pools = pools_of(2)["nodePools"]
    limits = {"resources": {"limits": {"memory": "2Gi"}}}
    spec = {
        "nodePools": [{**each, **limits} for each in pools],
        "config": _SETTINGS,
        "redundancy": {"copies": 1},
    }
    return list(story(spec)(rng))


def end_well() -> list[UserAction]:
    """Everything has the time that it takes."""
    return [UserAction(150, "look at the actions", lambda api: api.list(ApplicationAction))]


def fire_scale(name: str, pool: str, to: Callable[[int], int]) -> Do:
    """Scale a pool from what it has."""

    def target(found: Object) -> Tree:
        replicas = int(found.spec["replicas"])
        return {"from": str(replicas), "to": str(to(replicas))}

    return fire(name, StatefulSet, _set_of(pool), SCALE, target)


def fire_resources(name: str, pool: str, to: str) -> Do:
    def target(found: Object) -> Tree:
        containers = found.at("spec", "template", "spec", "containers")
        return {"container": _CONTAINER, "resource": "memory", "from": _memory(containers), "to": to}

    return fire(name, StatefulSet, _set_of(pool), RESOURCES, target)


def fire_copies(name: str, to: int) -> Do:
    def target(found: Object) -> Tree:
        return {"from": str(found.at("spec", "redundancy", "copies", default="")), "to": str(to)}

    return fire(name, ElasticsearchCluster, NAME, REDUNDANCY, target)


def ask_for_copies(number: int) -> Do:
    """By hand."""
    return change_spec(ElasticsearchCluster, NAME, {"redundancy": {"copies": number}})


def fire_rebalance(name: str) -> Do:
    return fire(name, ElasticsearchCluster, NAME, REBALANCE, {})


def _action(rng: Random, name: str) -> UserAction:
    after = rng.uniform(1, 90)
    pool = rng.choice(("data", "data", "master"))
    kinds = ("up", "down", "copies", "copies", "rebalance", "resources")
    match rng.choice((*kinds, "by hand", "copies by hand", "memory by hand", "take back")):
        case "up":
            do = fire_scale(name, pool, lambda replicas: min(5, replicas + 1))
            return UserAction(after, f"scale {pool} up", do)
        case "down":
            do = fire_scale(name, pool, lambda replicas: max(1, replicas - 1))
            return UserAction(after, f"scale {pool} down", do)
        case "copies":
            copies = rng.randint(0, 2)
            return UserAction(after, f"keep {copies} copies", fire_copies(name, copies))
        case "rebalance":
            return UserAction(after, "rebalance", fire_rebalance(name))
        case "resources":
            size = rng.choice(("3Gi", "4Gi"))
            return UserAction(after, f"give {pool} {size}", fire_resources(name, pool, size))
        case "by hand":
            replicas = rng.randint(1, 4)
            return UserAction(after, f"{replicas} of {pool} by hand", _pool_by_hand(pool, replicas=replicas))
        case "copies by hand":
            copies = rng.randint(0, 2)
            return UserAction(after, f"{copies} copies by hand", ask_for_copies(copies))
        case "memory by hand":
            size = rng.choice(("1Gi", "4Gi"))
            do = _pool_by_hand(pool, resources={"limits": {"memory": size}})
            return UserAction(after, f"give {pool} {size} by hand", do)
        case _:
            return UserAction(after, "take back what was asked of the pilots", _forget_requests)


def _pool_by_hand(name: str, **fields: Any) -> Do:
    """As people do who edit what they see."""

    async def do(api: Api) -> None:
        found = await api.get(ElasticsearchCluster, NAME, SPACE)
        pools = [{**each, **fields} if each["name"] == name else each for each in found.spec["nodePools"]]
        await api.patch(ElasticsearchCluster, NAME, SPACE, {"spec": {"nodePools": pools}})

    return do


async def _forget_requests(api: Api) -> None:
    for pilot in (await api.list(Pilot, SPACE)).objects:
        if pilot.spec.get("rebalance"):
            await api.patch(Pilot, pilot.name, SPACE, {"spec": {"rebalance": None}})


async def no_action_failed(api: Api) -> str:
    """The same as ``clusters_settled``; and no action has failed or was declined.

    One may wait: a rule that scales down while a manager is away leaves no room for copies."""
    if problem := await clusters_settled(api):
        return problem
    for action in (await api.list(ApplicationAction, SPACE)).objects:
        if action.status["phase"] in ("Failed", "Declined"):
            return f"action {action.name} is {action.status}"
    return ""


async def clusters_settled(api: Api) -> str:
    """All actions have ended that can end, the cluster is as asked, and nothing is left of a request to
    rebalance."""
    if problem := await cluster_settled(api):
        return problem
    cluster = await api.get(ElasticsearchCluster, NAME, SPACE)
    for action in (await api.list(ApplicationAction, SPACE)).objects:
        waits = action.spec["action"] == REDUNDANCY and not _has_room(cluster)
        if action.at("status", "completionTime") is None and not waits:
            return f"action {action.name} has not ended: {action.status}"
    for pool in cluster.spec["nodePools"]:
        wanted = pool["resources"]["limits"]["memory"]
        for number in range(pool["replicas"]):
            pod = await api.get(Pod, f"{_set_of(pool['name'])}-{number}", SPACE)
            if _memory(pod.spec["containers"]) != wanted:
                return f"{pod.name} has {_memory(pod.spec['containers'])}, and {wanted} is wanted"
    for pilot in (await api.list(Pilot, SPACE)).objects:
        if pilot.spec.get("rebalance"):
            return f"{pilot.name} has a request to rebalance"
    if cluster.status.get("rebalance") != {"enabled": False}:
        return f"rebalancing is not as it was: {cluster.status.get('rebalance')}"
    return _copies_settled(cluster)


def _copies_settled(cluster: Object) -> str:
    redundant = cluster.condition("Redundant") or {}
    if _has_room(cluster) and redundant.get("status") != "True":
        return f"{cluster.spec['redundancy']} is asked for, and the cluster says {redundant}"
    return ""


def _has_room(cluster: Object) -> bool:
    """Whether there are data nodes for all copies that are asked for."""
    nodes = sum(each["replicas"] for each in cluster.spec["nodePools"] if "data" in each["roles"])
    return bool(cluster.at("spec", "redundancy", "copies") < nodes)


def _set_of(pool: str) -> str:
    return f"es-{NAME}-{pool}"


def _memory(containers: Sequence[Tree]) -> str:
    found = next(each for each in containers if each["name"] == _CONTAINER)
    return str(found["resources"]["limits"]["memory"])


CLUSTERS: Final = msgspec.structs.replace(
    ELASTIC,
    name="clusters",
    controllers=(*ELASTIC.controllers, *all_executors()),
    users=cluster_users,
    settled=clusters_settled,
    invariants=(*ELASTIC.invariants, *ACTION_INVARIANTS),
    # An executor pauses so long between its last attempts, and clocks may differ by two minutes.
    patience=300.0,
)
