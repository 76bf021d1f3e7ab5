"""A heap that no node could start with is refused when it is asked for, and not when something else is."""

from __future__ import annotations

import copy

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
)
from tests.kit.admission import admit

from pilothouse.api.navigator.conversion import STASH, convert

POOL = "spec.nodePools[0]"
EACH_VERSION = pytest.mark.parametrize("version", VERSIONS)


def memory(limit: str) -> Json:
    return {"resources": {"limits": {"memory": limit}}}


def pool(**changes: object) -> Json:
    return elasticsearch(nodePools=[{**MASTERS, **changes}])


@pytest.mark.parametrize("heap", ["1k", "1", "63Mi", "1500m"])
def test_too_little_is_told_with_what_is_enough(heap: str) -> None:
    [problem] = create(ELASTICSEARCH[V1BETA1], pool(heapSize=heap)).problems
    assert problem.path == f"{POOL}.heapSize"
    assert "must be at least 64Mi" in problem.detail


@EACH_VERSION
def test_so_is_a_memory_limit_whose_half_is_too_little(version: str) -> None:
    [problem] = create(ELASTICSEARCH[version], pool(**memory("100Mi"))).problems
    assert problem.path == f"{POOL}.resources.limits.memory"
    assert "twice 64Mi" in problem.detail


@pytest.mark.parametrize(
    "fields", [{"heapSize": "64Mi"}, memory("128Mi"), {"heapSize": "64Mi", **memory("100Mi")}, {}]
)
def test_enough_is_enough(fields: Json) -> None:
    assert create(ELASTICSEARCH[V1BETA1], pool(**fields)).problems == []


def test_cassandra_has_other_measures() -> None:
    assert create(CASSANDRA[V1BETA1], cassandra(nodePools=[{**RACK, "heapSize": "32Mi"}])).problems == []


@pytest.mark.parametrize("fields", [{"heapSize": "1k"}, memory("100Mi")])
def test_a_cluster_that_has_it_already_can_be_changed_otherwise(fields: Json) -> None:
    kind = ELASTICSEARCH[V1BETA1]
    stored = create(kind, pool()).obj
    stored["spec"]["nodePools"][0].update(fields)
    for version in VERSIONS:
        old = convert(stored, V1BETA1, version)
        new = copy.deepcopy(old)
        new["spec"]["nodePools"][0]["replicas"] = 5
        assert admit(ELASTICSEARCH[version], new, old).problems == []
    added = copy.deepcopy(stored)
    added["spec"]["nodePools"].append({"name": "other", "roles": ["data"], **fields})
    assert [path.partition("]")[0] for path in admit(kind, added, stored).paths] == ["spec.nodePools[1"]
    changed = copy.deepcopy(stored)
    changed["spec"]["nodePools"][0]["heapSize"] = "2k"
    assert admit(kind, changed, stored).paths == [f"{POOL}.heapSize"]


def test_an_old_client_can_t_bring_it_along_either() -> None:
    annotations = {STASH: '{"spec":{"nodePools":{"test":{"heapSize":"1k"}}}}'}
    brought = {"metadata": {"name": "a", "annotations": annotations}, "spec": elasticsearch()}
    assert admit(ELASTICSEARCH[V1ALPHA1], brought).paths == [f"metadata.annotations[{STASH}]"]
