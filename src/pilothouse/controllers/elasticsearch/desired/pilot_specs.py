"""The spec of each Pilot of a cluster: the configuration of its database.

    new_pilot_spec(cluster, pod, pilots)                # the whole spec, for a Pilot to be created
    difference(pilot.spec, wanted_spec(…))              # the merge patch to it; {} if nothing differs

Settings have the names of Elasticsearch 7 and later; the pilot's driver translates them for earlier versions.
It also adds what depends on the machine: name, address, ports, paths.
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
from pilothouse.controllers.elasticsearch.desired.pools import (
    Pool,
    discovery_name,
    pools_of,
    roles_of,
    set_name,
)
from pilothouse.meta.versions import Version

_DEFAULT_HEAP = 512
_MEGABYTE = 1024 * 1024


def new_pilot_spec(cluster: Object, pod: Object, pilots: Iterable[Object]) -> Tree:
    """The spec of the Pilot to create for a pod."""
    pools = pools_of(cluster, ())
    name = pod.labels.get(POOL_NAME, "")
    pool = pools.get(name) or Pool(name, roles_of(pod), 0, {})
    pilots = list(pilots)
    return wanted_spec(
        cluster,
        pool,
        version=pod.annotations.get(VERSION) or cluster.spec["version"],
        initial=initial_masters(cluster, pools.values(), pilots),
        majority=minimum_masters(cluster, _master_count(pools.values())),
    )


def wanted_spec(cluster: Object, pool: Pool, *, version: str, initial: Sequence[str], majority: int) -> Tree:
    """The part of a Pilot's spec that its cluster sets. ``majority`` is for ``minimum_master_nodes``."""
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
    section: Tree = {
        "nodePool": pool.name,
        "roles": list(pool.roles),
        "plugins": [dict(plugin) for plugin in cluster.spec.get("plugins") or ()],
    }
    if redundancy := cluster.spec.get("redundancy"):
        section["redundancy"] = dict(redundancy)
    return {"application": "elasticsearch", "configuration": configuration, "elasticsearch": section}


def initial_masters(cluster: Object, pools: Iterable[Pool], pilots: Sequence[Object]) -> list[str]:
    """The ``initial_master_nodes`` that bootstrap a cluster; empty once it has formed.

    Once a node has started the list is fixed: changing it could form two clusters.
    """
    if cluster.status.get("clusterUUID"):
        return []
    if any(pilot.at("status", "lastStartedTime") for pilot in pilots):
        for pilot in pilots:
            if masters := pilot.at("spec", "configuration", "settings", default={}).get(INITIAL_MASTERS):
                return list(masters)
    return [
        f"{set_name(cluster, pool.name)}-{ordinal}"
        for pool in pools
        if pool.is_master
        for ordinal in range(min(pool.replicas, MOST_REPLICAS))
    ]


def minimum_masters(cluster: Object, masters: int) -> int:
    """A majority of the masters, or more if the spec says so."""
    given = cluster.spec.get("minimumMasters") or 0
    return max(quorum(masters), min(given, masters), 1)


def heap_megabytes(pool: Pool) -> int:
    """The heap: the ``heapSize`` of the pool, else half of its memory limit, else half of its memory request,
    else 512 MiB.

    By default Elasticsearch takes half of the machine's memory, and touches all of it: two nodes on one
    machine would run out.
    """
    given = pool.spec.get("heapSize")
    if given is not None:
        return max(1, parse_quantity(given).to_int() // _MEGABYTE)
    resources = pool.spec.get("resources") or {}
    memory = next(
        (found for part in ("limits", "requests") if (found := (resources.get(part) or {}).get("memory"))),
        None,
    )
    return max(1, parse_quantity(memory).to_int() // (2 * _MEGABYTE)) if memory else _DEFAULT_HEAP


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Tree:
    """The merge patch that replaces the fields of ``wanted``; other fields of ``found`` stay."""
    return dict(_differing(found, wanted, whole=False))


def flat(settings: Mapping[str, Any], prefix: str = "") -> Tree:
    """Settings by their dotted names, so that a pool's override the cluster's however each is written."""
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
        elif present != value and not (_is_empty(present) and _is_empty(value)):
            yield name, value
    if whole:
        yield from ((name, None) for name in found if name not in wanted)


def _is_empty(value: Any) -> bool:
    """The server drops such fields, or defaults them."""
    return value is None or value in ("", [], {}, ())


def _master_count(pools: Iterable[Pool]) -> int:
    return sum(pool.replicas for pool in pools if pool.is_master)
