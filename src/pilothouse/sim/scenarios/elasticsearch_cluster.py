"""An Elasticsearch cluster that is changed again and again, with simulated pilots and a modelled database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from pilothouse.api.kind_names import CassandraCluster, ElasticsearchCluster, Pilot, Pod, StatefulSet
from pilothouse.api.objects import Tree
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.controllers.cassandra_clusters import cassandra_clusters
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.controllers.elasticsearch.desired.pilot_specs import new_pilot_spec
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.pilots.pilot_collection import pilot_collector
from pilothouse.controllers.pilots.pilot_creation import pilot_creator
from pilothouse.controllers.pilots.pilot_heartbeats import silent_pilots
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import SPACE, Do, change_spec, create, delete, given_space
from pilothouse.sim.simulated_pilots import SimulatedPilots
from pilothouse.sim.simulated_server import SimulatedServer

NAME: Final = "demo"
_VERSIONS: Final = ("7.17.9", "7.17.29", "8.17.0")
_RESTS: Final = ("AsAsked", "VersionRefused", "VersionInDoubt", "DrainRefused")
"""The conditions that a cluster may end with."""


def cluster_owner(rng: Random) -> Sequence[UserAction]:
    """Scales, upgrades, reverts, reconfigures, adds and removes pools, pauses, and deletes a Pilot."""
    pools = {"master": _pool("master", 3, "master"), "data": _pool("data", rng.randint(2, 3), "data")}
    version = 0
    doing = [
        given_space(),
        UserAction(2, "create the cluster", _create({"nodePools": list(pools.values())})),
        UserAction(1, "create a Cassandra cluster", create(CassandraCluster, _cassandra())),
    ]
    for _ in range(rng.randint(2, 5)):
        after = rng.uniform(1, 150)
        match rng.choice(
            ("data", "data", "masters", "version", "version", "revert", "config", "pool", "pilot", "pause")
        ):
            case "data":
                pools["data"] = _pool("data", rng.randint(1, 4), "data")
                doing.append(_put(after, {"nodePools": list(pools.values())}))
            case "masters":
                pools["master"] = _pool("master", rng.choice((1, 3, 4, 5)), "master")
                doing.append(_put(after, {"nodePools": list(pools.values())}))
            case "version":
                version = min(version + 1, len(_VERSIONS) - 1)
                doing.append(_put(after, {"version": _VERSIONS[version]}))
            case "revert":
                version = max(version - 1, 0)
                doing.append(_put(after, {"version": _VERSIONS[version]}))
            case "config":
                doing.append(_put(after, {"config": {"search.max_buckets": rng.randint(1000, 9999)}}))
            case "pool":
                if pools.pop("extra", None) is None:
                    pools["extra"] = _pool("extra", rng.randint(1, 2), "data", "ingest")
                doing.append(_put(after, {"nodePools": list(pools.values())}))
            case "pilot":
                name = f"es-{NAME}-data-{rng.randint(0, 3)}"
                doing.append(UserAction(after, f"delete the Pilot {name}", delete(Pilot, name, SPACE)))
            case _:
                doing += [_put(after, {"paused": True}), _put(rng.uniform(5, 60), {"paused": False})]
    return doing


def story(first: Tree, *then: tuple[float, Tree]) -> Callable[[Random], Sequence[UserAction]]:
    """A script: create a cluster with these fields of its spec, and change them after so many seconds."""

    def owner(rng: Random) -> Sequence[UserAction]:
        made = UserAction(2, "create the cluster", _create(first))
        return [given_space(), made, *(_put(after, spec) for after, spec in then)]

    return owner


def pools_of(data: int = 3, masters: int = 3, *, extra: int = 0) -> Tree:
    pools = [_pool("master", masters, "master"), _pool("data", data, "data")]
    return {"nodePools": [*pools, _pool("extra", extra, "data", "ingest")] if extra else pools}


async def cluster_settled(api: Api) -> str:
    """Each pool has its ready nodes, of the version asked for or that can't be left, with their Pilots."""
    cluster = await api.find(ElasticsearchCluster, NAME, SPACE)
    if cluster is None:
        return f"there is no cluster {NAME}"
    progressing = cluster.condition("Progressing") or {}
    if cluster.spec.get("paused"):
        return "" if progressing.get("reason") == "ClusterPaused" else f"it is paused, and says {progressing}"
    if progressing.get("status") != "False" or progressing.get("reason") not in _RESTS:
        return f"the cluster says {progressing}"
    pods = {pod.name: pod for pod in (await api.list(Pod, SPACE)).objects}
    wanted = {
        f"es-{NAME}-{pool['name']}-{number}"
        for pool in cluster.spec["nodePools"]
        for number in range(pool["replicas"])
    }
    if set(pods) != wanted:
        return f"there are {sorted(pods)}, and {sorted(wanted)} are wanted"
    pilots = {pilot.name: pilot for pilot in (await api.list(Pilot, SPACE)).objects}
    if set(pilots) != wanted:
        return f"there are the Pilots {sorted(pilots)}, and {sorted(wanted)} are wanted"
    for name, pilot in pilots.items():
        leaving = pilot.spec.get("decommission")
        if leaving or not pilot.is_true("Ready"):
            return f"{name} is not in service: {leaving}, {pilot.status.get('conditions')}"
        settings = pilot.at("spec", "configuration", "settings")
        if settings.get("search.max_buckets") != cluster.at("spec", "config", default={}).get(
            "search.max_buckets"
        ):
            return f"{name} has the settings {settings}"
    sets = {one.name for one in (await api.list(StatefulSet, SPACE)).objects}
    if sets != {f"es-{NAME}-{pool['name']}" for pool in cluster.spec["nodePools"]}:
        return f"there are the sets {sorted(sets)}"
    reported = {pilot.at("status", "elasticsearch", "version") for pilot in pilots.values()}
    if progressing["reason"] == "AsAsked" and reported != {cluster.spec["version"]}:
        return f"{cluster.spec['version']} is asked for, and {reported} run"
    return ""


async def run_pilots(server: SimulatedServer, clock: Clock, rng: Random) -> None:
    await SimulatedPilots(server.api("pilots"), SPACE, NAME, clock, rng).run()


def _put(after: float, spec: Tree) -> UserAction:
    return UserAction(after, f"put {spec}", change_spec(ElasticsearchCluster, NAME, spec))


def _create(spec: Tree) -> Do:
    cluster = {
        "apiVersion": ElasticsearchCluster.api_version,
        "kind": ElasticsearchCluster.kind,
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {"version": _VERSIONS[0], **spec},
    }
    return create(ElasticsearchCluster, cluster)


def _cassandra() -> Tree:
    """A cluster without a controller, which its status says."""
    return {
        "apiVersion": CassandraCluster.api_version,
        "kind": CassandraCluster.kind,
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {"version": "4.1.3", "nodePools": [{"name": "a", "replicas": 1}]},
    }


def _pool(name: str, replicas: int, *roles: str) -> Tree:
    return {"name": name, "replicas": replicas, "roles": list(roles)}


ELASTIC = Scenario(
    "elastic",
    (
        elasticsearch_clusters,
        cassandra_clusters,
        disruption_budgets,
        pilot_creator({ElasticsearchCluster: new_pilot_spec}),
        # Soon enough that none is left when all has come to rest.
        pilot_collector(30.0),
        silent_pilots(),
        scheduling,
        stateful_sets,
        garbage,
        service_accounts,
    ),
    cluster_owner,
    cluster_settled,
    (*PROMISES["stateful-sets"], *PROMISES["garbage"], *PROMISES["elasticsearch-clusters"]),
    companion=run_pilots,
)
