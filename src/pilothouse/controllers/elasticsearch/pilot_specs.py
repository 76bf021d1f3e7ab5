"""What each Pilot of a cluster should say: the configuration of its database.

    new_pilot_spec(cluster, pod, pilots)                # the whole spec, for a Pilot that is made
    difference(pilot.spec, wanted_spec(…))              # the merge patch to it; {} if it is so already

Settings have the names of Elasticsearch 7 and later; a pilot's driver writes those that its version knows. What follows from the machine
(name, address, ports, paths) is the driver's too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pilothouse.api.applications.elasticsearch_application import INITIAL_MASTERS, MINIMUM_MASTERS, SECURITY
from pilothouse.api.navigator.clusters import MOST_REPLICAS
from pilothouse.api.navigator.elasticsearch import quorum
from pilothouse.api.navigator.labels import POOL_NAME, VERSION
from pilothouse.api.objects import Object, Tree
from pilothouse.base.quantity import parse_quantity
from pilothouse.controllers.elasticsearch.pools import Pool, discovery_name, pools_of, roles_of, set_name
from pilothouse.meta.versions import Version

_HEAP_OF_NOTHING_SAID = 512
_MEGABYTE = 1024 * 1024


def new_pilot_spec(cluster: Object, pod: Object, pilots: Iterable[Object]) -> Tree:
    """The spec of a Pilot that is made for a pod."""
    pools = pools_of(cluster, ())
    name = pod.labels.get(POOL_NAME, "")
    pool = pools.get(name) or Pool(name, roles_of(pod), 0, {})
    pilots = list(pilots)
    return wanted_spec(
        cluster,
        pool,
        version=pod.annotations.get(VERSION) or cluster.spec["version"],
        initial=initial_masters(cluster, pools.values(), pilots),
        majority=minimum_masters(cluster, _masters_asked_for(pools.values())),
    )


def wanted_spec(cluster: Object, pool: Pool, *, version: str, initial: Sequence[str], majority: int) -> Tree:
    """The part of a Pilot's spec that is its cluster's. ``majority`` is how many masters have to see each other."""
    settings: Tree = {
        **flat(cluster.spec.get("config") or {}),
        **flat(pool.spec.get("config") or {}),
        "cluster.name": cluster.name,
        "discovery.seed_hosts": [f"{discovery_name(cluster)}.{cluster.namespace}.svc"],
    }
    if cluster.spec.get("security") is not None:
        settings[SECURITY] = True
    if initial and pool.is_master:
        settings[INITIAL_MASTERS] = list(initial)
    if Version.parse(version).major < 7:
        settings[MINIMUM_MASTERS] = majority
    configuration: Tree = {"version": version, "settings": settings}
    heap = heap_megabytes(pool)
    configuration["environment"] = {"ES_JAVA_OPTS": f"-Xms{heap}m -Xmx{heap}m"}
    return {
        "application": "elasticsearch",
        "configuration": configuration,
        "elasticsearch": {
            "nodePool": pool.name,
            "roles": list(pool.roles),
            "plugins": [dict(plugin) for plugin in cluster.spec.get("plugins") or ()],
        },
    }


def initial_masters(cluster: Object, pools: Iterable[Pool], pilots: Sequence[Object]) -> list[str]:
    """By whom a new cluster is formed; nobody, once it was.

    When a master has been started the list stays as it is: a list that changes under way could form two clusters.
    """
    if cluster.status.get("clusterUUID"):
        return []
    if any(pilot.at("status", "lastStartedTime") for pilot in pilots):
        for pilot in pilots:
            if said := pilot.at("spec", "configuration", "settings", default={}).get(INITIAL_MASTERS):
                return list(said)
    return [
        f"{set_name(cluster, pool.name)}-{ordinal}"
        for pool in pools
        if pool.is_master
        for ordinal in range(min(pool.replicas, MOST_REPLICAS))
    ]


def minimum_masters(cluster: Object, masters: int) -> int:
    """How many masters have to see each other: a majority of those there are, or more if the spec says so."""
    said = cluster.spec.get("minimumMasters") or 0
    return max(quorum(masters), min(said, masters), 1)


def heap_megabytes(pool: Pool) -> int:
    """The heap: what the pool says, else half of its memory limit, else half of its memory request, else 512 MiB.

    Left to itself, Elasticsearch takes half of the machine, and touches all of it: two nodes on one machine would kill each other.
    """
    said = pool.spec.get("heapSize")
    if said is not None:
        return max(1, parse_quantity(said).to_int() // _MEGABYTE)
    resources = pool.spec.get("resources") or {}
    memory = next(
        (found for part in ("limits", "requests") if (found := (resources.get(part) or {}).get("memory"))),
        None,
    )
    return max(1, parse_quantity(memory).to_int() // (2 * _MEGABYTE)) if memory else _HEAP_OF_NOTHING_SAID


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Tree:
    """The merge patch that makes the fields of ``wanted`` so, whole; other fields of ``found`` stay."""
    return dict(_differing(found, wanted, whole=False))


def flat(settings: Mapping[str, Any], prefix: str = "") -> Tree:
    """Settings by their dotted names, so that a pool's take the place of the cluster's however each is written."""
    found: Tree = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _differing(
    found: Mapping[str, Any], wanted: Mapping[str, Any], *, whole: bool
) -> Iterator[tuple[str, Any]]:
    for name, value in wanted.items():
        present = found.get(name)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            if inner := dict(_differing(present, value, whole=True)):
                yield name, inner
        elif present != value and not (_says_nothing(present) and _says_nothing(value)):
            yield name, value
    if whole:
        yield from ((name, None) for name in found if name not in wanted)


def _says_nothing(value: Any) -> bool:
    """The server leaves such fields out, or fills them in."""
    return value is None or value in ("", [], {}, ())


def _masters_asked_for(pools: Iterable[Pool]) -> int:
    return sum(pool.replicas for pool in pools if pool.is_master)
