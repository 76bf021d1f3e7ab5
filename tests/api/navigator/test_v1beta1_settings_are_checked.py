"""What v1beta1 lets a person choose is checked before anything is rolled out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.navigator.clusters import (
    CASSANDRA,
    ELASTICSEARCH,
    MASTERS,
    RACK,
    V1BETA1,
    Json,
    cassandra,
    create,
    elasticsearch,
)

POOL = "spec.nodePools[0]"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pool(**changes: Any) -> Json:
    return elasticsearch(nodePools=[{**MASTERS, **changes}])


CASES = {
    "the name of the cluster": (elasticsearch(config={"cluster.name": "x"}), "spec.config[cluster.name]"),
    "a nested setting": (pool(config={"node": {"roles": ["data"]}}), f"{POOL}.config[node][roles]"),
    "discovery": (pool(config={"discovery.seed_hosts": []}), f"{POOL}.config[discovery.seed_hosts]"),
    "a heap of nothing": (pool(heapSize="0"), f"{POOL}.heapSize"),
    "a heap as big as the memory": (
        pool(heapSize="2Gi", resources={"limits": {"memory": "2Gi"}}),
        f"{POOL}.heapSize",
    ),
    "a plugin from nowhere": (
        elasticsearch(plugins=[{"name": "icu", "url": "ftp://host/icu.zip"}]),
        "spec.plugins[0].url",
    ),
    "a plugin's url without a host": (
        elasticsearch(plugins=[{"name": "icu", "url": "https:///icu.zip"}]),
        "spec.plugins[0].url",
    ),
    "a toleration of a value that exists": (
        pool(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        f"{POOL}.tolerations[0].value",
    ),
    "a toleration without key": (pool(tolerations=[{"value": "b"}]), f"{POOL}.tolerations[0].operator"),
    "a neighbour selected badly": (
        pool(
            affinity={
                "podAntiAffinity": {
                    REQUIRED: [
                        {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                        }
                    ]
                }
            }
        ),
        f"{POOL}.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector",
    ),
    "a neighbour anywhere": (
        pool(affinity={"podAffinity": {REQUIRED: [{"topologyKey": ""}]}}),
        f"{POOL}.affinity.podAffinity.{REQUIRED}[0].topologyKey",
    ),
    "a node selected by no value": (
        pool(
            affinity={
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}
                }
            }
        ),
        f"{POOL}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values",
    ),
    "a spread over nothing": (
        pool(
            topologySpreadConstraints=[
                {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        ),
        f"{POOL}.topologySpreadConstraints[0].maxSkew",
    ),
    "fewer copies than none": (elasticsearch(redundancy={"copies": -1}), "spec.redundancy.copies"),
    "copies of an index that can't be": (
        elasticsearch(redundancy={"copies": 1, "indices": ["logs-*", "Logs"]}),
        "spec.redundancy.indices[1]",
    ),
    "copies of an index without a name": (
        elasticsearch(redundancy={"copies": 1, "indices": [""]}),
        "spec.redundancy.indices[0]",
    ),
    "claims neither kept nor deleted": (
        elasticsearch(persistentVolumeClaimRetentionPolicy={"whenScaled": "Maybe"}),
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    spec, path = CASES[case]
    assert create(ELASTICSEARCH[V1BETA1], spec).paths == [path]


def test_cassandra_finds_its_own_seeds() -> None:
    spec = cassandra(nodePools=[{**RACK, "config": {"seed_provider": []}}])
    assert create(CASSANDRA[V1BETA1], spec).paths == [f"{POOL}.config[seed_provider]"]


def test_a_setting_of_ones_own_is_kept_as_it_is() -> None:
    settings = {"indices": {"recovery.max_bytes_per_sec": "50mb"}, "path.repo": ["/backup"], "x.y": None}
    found = create(ELASTICSEARCH[V1BETA1], elasticsearch(config=settings))
    assert found.problems == []
    assert found.obj["spec"]["config"] == settings


def test_a_retention_policy_that_says_half_keeps_the_rest() -> None:
    found = create(
        ELASTICSEARCH[V1BETA1], elasticsearch(persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"})
    )
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    assert found.obj["spec"]["persistentVolumeClaimRetentionPolicy"] == policy
