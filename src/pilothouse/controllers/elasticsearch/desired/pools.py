"""The pools of a cluster's spec, and the names and labels of its objects.

    pools = pools_of(cluster, sets)
    pools["data"].replicas              # 2
    set_name(cluster, "data")           # "es-demo-data"

A pool that was removed from the spec and still has a StatefulSet counts as one with no replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.navigator.labels import HAS_PILOT, POOL_NAME, ROLE
from pilothouse.api.objects import Object, Tree

CLUSTER: Final = ELASTICSEARCH.cluster_label
_ROLES: Final = ("data", "ingest", "master")


class Pool(msgspec.Struct, frozen=True):
    """A pool, as the spec has it."""

    name: str
    roles: tuple[str, ...]
    replicas: int
    spec: Mapping[str, Any]
    """Its part of the cluster's spec; empty if it was removed."""

    @property
    def removed(self) -> bool:
        return not self.spec

    @property
    def is_master(self) -> bool:
        return "master" in self.roles

    @property
    def holds_data(self) -> bool:
        return "data" in self.roles


def pools_of(cluster: Object, sets: Iterable[Object]) -> dict[str, Pool]:
    """By name: those of the spec in its order, then removed ones."""
    pools = {
        spec["name"]: Pool(
            spec["name"], tuple(sorted(spec.get("roles") or ())), int(spec.get("replicas", 1)), spec
        )
        for spec in cluster.spec.get("nodePools") or ()
    }
    for one in sets:
        name = one.labels.get(POOL_NAME, "")
        if name and name not in pools:
            pools[name] = Pool(name, roles_of(one), 0, {})
    return pools


def roles_of(labelled: Object) -> tuple[str, ...]:
    """The roles in the labels of a set or a pod."""
    return tuple(role for role in _ROLES if labelled.labels.get(f"{ROLE}{role}") == "true")


def base_name(cluster: Object) -> str:
    return f"es-{cluster.name}"


def set_name(cluster: Object, pool: str) -> str:
    return f"{base_name(cluster)}-{pool}"


def discovery_name(cluster: Object) -> str:
    """The service by which nodes find one another."""
    return f"{base_name(cluster)}-discovery"


def cluster_labels(cluster: Object) -> dict[str, str]:
    return {CLUSTER: cluster.name}


def selecting_labels(cluster: Object, pool: Pool) -> dict[str, str]:
    """The labels that select the pods of a pool."""
    return {CLUSTER: cluster.name, POOL_NAME: pool.name}


def pool_labels(cluster: Object, pool: Pool) -> dict[str, str]:
    """The labels of a pool's pods."""
    roles = {f"{ROLE}{role}": "true" for role in pool.roles}
    return {**selecting_labels(cluster, pool), **roles, HAS_PILOT: ""}


def metadata(cluster: Object, name: str, labels: Mapping[str, str]) -> Tree:
    return {"name": name, "namespace": cluster.namespace, "labels": dict(labels)}
