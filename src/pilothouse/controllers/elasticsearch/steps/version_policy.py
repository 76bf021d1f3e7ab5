"""Versions that nodes do not get, whatever the spec says.

    refused = refused_version(observed)              # why nodes do not get the version; None if they do
    target_template(observed, pool)                  # of the pods of a pool; None if the version is refused

The version in a set's template never goes down once a node may have run with it: Elasticsearch does not read
data that a later version has written. The highest version that a node may have run (``_highest_version``) is
that of its report, its pod or its next pod; a pod that can't have run has written nothing and does not count.

A version is refused pool by pool, so that the other pools go on; the report names all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from pilothouse.api.navigator.labels import VERSION
from pilothouse.api.navigator.upgrade_paths import refusal, unknown
from pilothouse.api.objects import Tree
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import annotation_of, wanted_template
from pilothouse.controllers.elasticsearch.desired.pools import Pool
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.template_rollout import roll_template
from pilothouse.meta.versions import Version
from pilothouse.runtime.intents import Intent

REFUSED: Final = "VersionRefused"
IN_DOUBT: Final = "VersionInDoubt"
"""It is not known yet whether a node has started with a later version than the spec has."""


def refused_version(observed: ObservedCluster) -> ReconcileStep | None:
    """Why the version of the spec is refused: nodes can't go back, or can't upgrade that way."""
    asked = str(observed.cluster.spec["version"])
    beyond = {pool.name: found for pool in observed.rolling_order if (found := _beyond(observed, pool))}
    if beyond:
        nodes = [node for found in beyond.values() for node in found]
        kept = tuple(
            chain.from_iterable(
                _kept_at(observed, observed.pools[name], found) for name, found in beyond.items()
            )
        )
        started = [node for node in nodes if _started_beyond(node, asked)]
        if not started:
            names, later = (
                ", ".join(node.name for node in nodes),
                " and ".join(_texts(map(_highest_version, nodes))),
            )
            doubt = (
                f"it is not known yet whether {names} {'have' if len(nodes) > 1 else 'has'} started with "
                f"{later}"
            )
            return ReconcileStep(IN_DOUBT, f"waiting with {asked}: {doubt}", kept, refused=True)
        return ReconcileStep(REFUSED, _cannot_go_back(started, asked), kept, refused=True)
    problems = (_unsupported_upgrade(observed, pool) for pool in observed.rolling_order)
    problem = unknown(asked) or next(filter(None, problems), "")
    return ReconcileStep(REFUSED, problem, refused=True) if problem else None


def _cannot_go_back(nodes: list[ClusterNode], asked: str) -> str:
    """Which nodes have run which later version, as far as it is known."""
    seen: dict[str, list[str]] = {}
    for node in nodes:
        if node.version and Version.parse(asked) < Version.parse(node.version):
            seen.setdefault(f"at {node.version}", []).append(node.name)
        else:
            seen.setdefault(f"started for {node.made_for}", []).append(node.name)
    versions = "; ".join(
        f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} {state}"
        for state, names in sorted(seen.items())
    )
    return (
        f"{versions} and can't go back to {asked}: Elasticsearch does not read data that a later version has "
        "written; the other nodes stay as they are"
    )


def target_template(observed: ObservedCluster, pool: Pool) -> Tree | None:
    """The template that the pods of a pool should have; None if the version is refused."""
    if _beyond(observed, pool) or _unsupported_upgrade(observed, pool):
        return None
    version, stateful_set = str(observed.cluster.spec["version"]), observed.sets[pool.name]
    return wanted_template(observed.cluster, pool, version, observed.security, stateful_set)


def _beyond(observed: ObservedCluster, pool: Pool) -> list[ClusterNode]:
    """The nodes of a pool whose data a later version than that of the spec may have written."""
    asked = Version.parse(str(observed.cluster.spec["version"]))
    return [node for node in observed.nodes_of(pool.name) if asked < _highest_version(node)]


def _unsupported_upgrade(observed: ObservedCluster, pool: Pool) -> str:
    """Why a pool can't be upgraded to the version of the spec; empty if it can."""
    asked, present = str(observed.cluster.spec["version"]), annotation_of(observed.sets[pool.name], VERSION)
    if not present or Version.parse(asked) <= Version.parse(present):
        return ""
    running = [node.version for node in observed.nodes if node.version] or [present]
    return unknown(asked) or refusal(min(running, key=Version.parse), asked)


def _started_beyond(node: ClusterNode, asked: str) -> bool:
    """Whether a node is known to run, or to have started with, a later version than this."""
    seen = (node.version, node.made_for if node.has_run and not node.served_earlier_version else "")
    return any(Version.parse(asked) < Version.parse(text or "0") for text in seen)


def _texts(versions: Iterable[Version]) -> list[str]:
    return list(map(str, sorted(set(versions))))


def _highest_version(node: ClusterNode) -> Version:
    """The highest version that may have written a node's data."""
    # A node that serves can read its data: no later version than the one it reports has written there.
    started_for = "" if node.cannot_have_run or node.served_earlier_version else node.made_for
    return max(Version.parse(text or "0") for text in (started_for, node.due_for, node.version))


def _kept_at(observed: ObservedCluster, pool: Pool, moved: list[ClusterNode]) -> Iterator[Intent]:
    """If the template went back while a pod was created from it: keep that pod's version."""
    stateful_set, version = observed.sets[pool.name], str(max(map(_highest_version, moved)))
    present = annotation_of(stateful_set, VERSION)
    if present and Version.parse(present) < Version.parse(version):
        because = f"{moved[0].name} was created for {version} already"
        wanted = wanted_template(observed.cluster, pool, version, observed.security, stateful_set)
        yield roll_template(stateful_set, wanted, moved[0].ordinal, because, event="")
