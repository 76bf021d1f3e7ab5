"""Updates of clusters: the numbered cases V35-V39, V52-V59, V62 and V66, and what v1beta1 adds to them.

Amended: V36 (an existing pool can't be given volumes, because nothing would come of it); V39 binds v1alpha1 only.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.navigator.clusters import (
    CASSANDRA,
    ELASTICSEARCH,
    MASTERS,
    RACK,
    V1ALPHA1,
    V1BETA1,
    VERSIONS,
    Json,
    cassandra,
    create,
    elasticsearch,
    update,
    without,
)
from tests.kit.admission import admit

POOL = "spec.nodePools[0]"


def pool(**changes: Any) -> Json:
    return elasticsearch(nodePools=[{**MASTERS, **changes}])


def rack(**changes: Any) -> Json:
    return cassandra(nodePools=[{**RACK, **changes}])


NO_VOLUMES = elasticsearch(nodePools=[without(MASTERS, "persistence")])
SECOND = {"name": "second", "roles": ["data"]}
ELASTICSEARCH_CASES = {
    "V35 unchanged": (elasticsearch(), elasticsearch(), set()),
    "V36 volumes for an existing pool": (NO_VOLUMES, elasticsearch(), {f"{POOL}.persistence"}),
    "V37 roles changed": (elasticsearch(), pool(roles=["master", "data"]), {f"{POOL}.roles"}),
    "V38 persistence removed": (elasticsearch(), NO_VOLUMES, {f"{POOL}.persistence"}),
    "V66 pool added": (elasticsearch(), elasticsearch(nodePools=[MASTERS, SECOND]), set()),
    "V66 pool removed": (elasticsearch(nodePools=[MASTERS, SECOND]), elasticsearch(), set()),
    "pools reordered": (
        elasticsearch(nodePools=[MASTERS, SECOND]),
        elasticsearch(nodePools=[SECOND, MASTERS]),
        set(),
    ),
    "replicas up": (elasticsearch(), pool(replicas=5), set()),
    "replicas down": (elasticsearch(), pool(replicas=1), set()),
    "same size otherwise written": (elasticsearch(), pool(persistence={"size": "10240Mi"}), set()),
    "size shrunk": (elasticsearch(), pool(persistence={"size": "5Gi"}), {f"{POOL}.persistence.size"}),
    "storage class changed": (
        elasticsearch(),
        pool(persistence={"size": "10Gi", "storageClass": "fast"}),
        {f"{POOL}.persistence.storageClass"},
    ),
    "version raised": (elasticsearch(), elasticsearch(version="6.8.23"), set()),
    "version taken back": (elasticsearch(version="6.8.23"), elasticsearch(), set()),
    "paused": (elasticsearch(), elasticsearch(paused=True), set()),
    "still a bad spec": (elasticsearch(), elasticsearch(minimumMasters=9), {"spec.minimumMasters"}),
}
CASSANDRA_CASES = {
    "V52 unchanged": (cassandra(), cassandra(), set()),
    "V53 rack changed": (cassandra(), rack(rack="rack-2"), {f"{POOL}.rack"}),
    "V54 datacenter changed": (cassandra(), rack(datacenter="datacenter-2"), {f"{POOL}.datacenter"}),
    "V55 same persistence": (cassandra(), rack(persistence={"size": "10Gi"}), set()),
    "V56 version raised by a patch": (cassandra(version="3.11.1"), cassandra(), {"spec.version"}),
    "V57 version raised": (cassandra(), cassandra(version="3.12"), {"spec.version"}),
    "V58 persistence removed": (
        cassandra(),
        cassandra(nodePools=[without(RACK, "persistence")]),
        {f"{POOL}.persistence"},
    ),
    "V59 size changed": (cassandra(), rack(persistence={"size": "25Gi"}), {f"{POOL}.persistence.size"}),
    "V62 3.11 written as 3.11.0": (cassandra(version="3.11"), cassandra(version="3.11.0"), set()),
    "V66 pool added": (cassandra(), cassandra(nodePools=[RACK, {"name": "second"}]), set()),
    "replicas changed": (cassandra(), rack(replicas=1), set()),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", ELASTICSEARCH_CASES)
def test_elasticsearch(case: str, version: str) -> None:
    before, after, paths = ELASTICSEARCH_CASES[case]
    assert set(update(ELASTICSEARCH[version], before, after).paths) == paths


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASSANDRA_CASES)
def test_cassandra(case: str, version: str) -> None:
    before, after, paths = CASSANDRA_CASES[case]
    assert set(update(CASSANDRA[version], before, after).paths) == paths


def test_V39_volumes_grow_in_v1beta1_only() -> None:
    before, after = elasticsearch(), pool(persistence={"size": "25Gi"})
    refused = update(ELASTICSEARCH[V1ALPHA1], before, after)
    assert refused.paths == [f"{POOL}.persistence.size"]
    assert "v1beta1" in str(refused.problems[0])
    assert update(ELASTICSEARCH[V1BETA1], before, after).problems == []


@pytest.mark.parametrize(
    "change",
    [
        {"resources": {"limits": {"memory": "4Gi"}}},
        {"nodeSelector": {"disk": "ssd"}},
        {"schedulerName": "mine"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_placement_and_resources_are_frozen_in_v1alpha1_and_rolled_out_in_v1beta1(change: Json) -> None:
    (name,) = change
    assert update(ELASTICSEARCH[V1ALPHA1], elasticsearch(), pool(**change)).paths == [f"{POOL}.{name}"]
    assert update(ELASTICSEARCH[V1BETA1], elasticsearch(), pool(**change)).problems == []
    assert update(CASSANDRA[V1ALPHA1], cassandra(), rack(**change)).paths == [f"{POOL}.{name}"]
    assert update(CASSANDRA[V1BETA1], cassandra(), rack(**change)).problems == []


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"indices.query.bool.max_clause_count": 4096}},
        {"heapSize": "1Gi"},
        {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app": "es"}},
                        }
                    ]
                }
            }
        },
    ],
    ids=lambda change: next(iter(change)),
)
def test_v1beta1_rolls_out_what_v1alpha1_does_not_know(change: Json) -> None:
    found = update(ELASTICSEARCH[V1BETA1], elasticsearch(), pool(**change))
    assert (found.problems, found.unknown) == ([], [])


def test_a_cluster_without_pilot_image_can_still_be_scaled_through_v1alpha1() -> None:
    kind = ELASTICSEARCH[V1ALPHA1]
    seen = create(ELASTICSEARCH[V1BETA1], elasticsearch(pilotImage=...)).obj
    old = {**seen, "apiVersion": kind.api_version}
    spec = {**elasticsearch(pilotImage=...), "nodePools": [{**MASTERS, "replicas": 5}]}
    assert admit(kind, {**old, "spec": spec}, old).problems == []
