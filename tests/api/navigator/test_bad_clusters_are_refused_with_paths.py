"""Creation of clusters: the numbered cases V01-V34, V40-V51 and V60-V65, in both versions.

Amended: V46 (Cassandra 4 and 5 are welcome); V27 and V47 (a pilot image is optional in v1beta1).
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.navigator.clusters import (
    CASSANDRA,
    ELASTICSEARCH,
    IMAGE,
    MASTERS,
    PERSISTENCE,
    RACK,
    V1ALPHA1,
    V1BETA1,
    VERSIONS,
    Json,
    cassandra,
    create,
    elasticsearch,
    without,
)
from tests.kit.admission import admit

DATA: Json = {"name": "data", "roles": ["data"]}


def pool(**changes: Any) -> Json:
    """A cluster with one good pool of masters and one pool under test."""
    return elasticsearch(nodePools=[MASTERS, {**DATA, **changes}])


def rack(**changes: Any) -> Json:
    return cassandra(nodePools=[{**RACK, **changes}])


POOL = "spec.nodePools[1]"
BAD_ELASTICSEARCH = {
    "V01 empty image": (elasticsearch(image={}), {"spec.image.repository", "spec.image.tag"}),
    "V02 image without repository": (
        elasticsearch(image=without(IMAGE, "repository")),
        {"spec.image.repository"},
    ),
    "V02 image with empty repository": (
        elasticsearch(image={**IMAGE, "repository": ""}),
        {"spec.image.repository"},
    ),
    "V03 image without tag": (elasticsearch(image=without(IMAGE, "tag")), {"spec.image.tag"}),
    "V03 image with empty tag": (elasticsearch(image={**IMAGE, "tag": ""}), {"spec.image.tag"}),
    "V04 pull policy invalid": (
        elasticsearch(image={**IMAGE, "pullPolicy": "invalid"}),
        {"spec.image.pullPolicy"},
    ),
    "V05 pull policy empty": (elasticsearch(image={**IMAGE, "pullPolicy": ""}), {"spec.image.pullPolicy"}),
    "V09 role invalid": (pool(roles=["invalid"]), {f"{POOL}.roles[0]"}),
    "V13 pool without name": (elasticsearch(nodePools=[MASTERS, without(DATA, "name")]), {f"{POOL}.name"}),
    "V13 pool with empty name": (pool(name=""), {f"{POOL}.name"}),
    "V14 pool name with capital": (pool(name="Data"), {f"{POOL}.name"}),
    "V15 pool name with @": (pool(name="da@ta"), {f"{POOL}.name"}),
    "V16 replicas -1": (pool(replicas=-1), {f"{POOL}.replicas"}),
    "V17 unknown role": (pool(roles=["data", "butler"]), {f"{POOL}.roles[1]"}),
    "V18 no roles": (pool(roles=[]), {f"{POOL}.roles"}),
    "V18 roles missing": (elasticsearch(nodePools=[MASTERS, without(DATA, "roles")]), {f"{POOL}.roles"}),
    "V19 persistence without size": (pool(persistence={}), {f"{POOL}.persistence.size"}),
    "V22 empty spec": ({}, {"spec.version"}),
    "V23 two pools of one name": (
        elasticsearch(nodePools=[MASTERS, MASTERS], minimumMasters=4),
        {"spec.nodePools[1]"},
    ),
    "V24 minimumMasters below quorum": (elasticsearch(minimumMasters=1), {"spec.minimumMasters"}),
    "V25 minimumMasters above masters": (elasticsearch(minimumMasters=5), {"spec.minimumMasters"}),
    "V26 no version": (elasticsearch(version=...), {"spec.version"}),
    "V26 empty version": (elasticsearch(version=""), {"spec.version"}),
    "V26 version zero": (elasticsearch(version="0.0.0"), {"spec.version"}),
    "V28 pilotImage without repository": (
        elasticsearch(pilotImage=without(IMAGE, "repository")),
        {"spec.pilotImage.repository"},
    ),
    "V29 pilotImage without tag": (elasticsearch(pilotImage=without(IMAGE, "tag")), {"spec.pilotImage.tag"}),
    "V40 persistence of no size": (pool(persistence={"size": "0"}), {f"{POOL}.persistence.size"}),
    "V41 negative size": (pool(persistence={"size": "-1"}), {f"{POOL}.persistence.size"}),
    "V41 size that is no amount": (pool(persistence={"size": "plenty"}), {f"{POOL}.persistence.size"}),
    "V61 runAsUser -1": (
        elasticsearch(securityContext={"runAsUser": -1}),
        {"spec.securityContext.runAsUser"},
    ),
    "V64 minimumMasters 0": (elasticsearch(minimumMasters=0), {"spec.minimumMasters"}),
    "V65 zero masters": (elasticsearch(nodePools=[DATA]), {"spec.nodePools"}),
    "V65 no pools at all": (elasticsearch(nodePools=...), {"spec.nodePools"}),
    "version of two numbers": (elasticsearch(version="5.6"), {"spec.version"}),
    "version of words": (elasticsearch(version="latest"), {"spec.version"}),
    "version unquoted": (elasticsearch(version=5.6), {"spec.version"}),
    "pool name with a dot": (pool(name="a.b"), {f"{POOL}.name"}),
    "pool name too long for pods": (pool(name="a" * 46), {f"{POOL}.name"}),
    "requests above limits": (
        pool(resources={"requests": {"memory": "3Gi"}, "limits": {"memory": "2Gi"}}),
        {f"{POOL}.resources.requests.memory"},
    ),
    "request that is no amount": (
        pool(resources={"requests": {"cpu": "lots"}}),
        {f"{POOL}.resources.requests.cpu"},
    ),
    "negative limit": (pool(resources={"limits": {"cpu": "-1"}}), {f"{POOL}.resources.limits.cpu"}),
    "one plugin twice": (
        elasticsearch(plugins=["a", "a"]),
        {"spec.plugins[1]"},
    ),
}
GOOD_ELASTICSEARCH = {
    "V06 Never": elasticsearch(image={**IMAGE, "pullPolicy": "Never"}),
    "V07 IfNotPresent": elasticsearch(image={**IMAGE, "pullPolicy": "IfNotPresent"}),
    "V08 Always": elasticsearch(image={**IMAGE, "pullPolicy": "Always"}),
    "V10 data": pool(roles=["data"]),
    "V11 ingest": pool(roles=["ingest"]),
    "V12 master": pool(roles=["master"]),
    "V20 a full pool": pool(
        replicas=5,
        persistence=PERSISTENCE,
        nodeSelector={"disk": "ssd"},
        resources={"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": 1, "memory": "3Gi"}},
        schedulerName="mine",
    ),
    "V21 only name and roles": pool(),
    "V30 minimumMasters 2 of 3": elasticsearch(minimumMasters=2),
    "V32 minimumMasters 3 of 3": elasticsearch(minimumMasters=3),
    "V33 minimumMasters left out": elasticsearch(),
    "V34 no image": elasticsearch(image=..., minimumMasters=3),
    "V42 10Gi": pool(persistence={"size": "10Gi"}),
    "V43 10Gi of a class": pool(persistence={"size": "10Gi", "storageClass": "standard"}),
    "a pool of no replicas": pool(replicas=0),
}
RACK_PATH = "spec.nodePools[0]"
BAD_CASSANDRA = {
    "V45 version 2.0.0": (cassandra(version="2.0.0"), {"spec.version"}),
    "V48 pilotImage without repository": (
        cassandra(pilotImage=without(IMAGE, "repository")),
        {"spec.pilotImage.repository"},
    ),
    "V49 pilotImage without tag": (cassandra(pilotImage=without(IMAGE, "tag")), {"spec.pilotImage.tag"}),
    "V50 image without repository": (
        cassandra(image=without(IMAGE, "repository")),
        {"spec.image.repository"},
    ),
    "V51 image without tag": (cassandra(image=without(IMAGE, "tag")), {"spec.image.tag"}),
    "V60 two pools of one name": (cassandra(nodePools=[RACK, RACK]), {"spec.nodePools[1]"}),
    "V63 pre-release": (cassandra(version="3.9-alpha1"), {"spec.version"}),
    "no version": (cassandra(version=...), {"spec.version"}),
    "empty version": (cassandra(version=""), {"spec.version"}),
    "W01 unquoted version": (cassandra(version=3.9), {"spec.version"}),
    "W02 version 0.0.x": (cassandra(version="0.0.x"), {"spec.version"}),
    "W03 version X.Y-foo+bar": (cassandra(version="X.Y-foo+bar"), {"spec.version"}),
    "W04 version with nothing behind the dash": (cassandra(version="3.9.0-"), {"spec.version"}),
    "pool name with capital": (rack(name="Test"), {f"{RACK_PATH}.name"}),
    "replicas -1": (rack(replicas=-1), {f"{RACK_PATH}.replicas"}),
    "persistence without size": (rack(persistence={}), {f"{RACK_PATH}.persistence.size"}),
    "negative size": (rack(persistence={"size": "-1"}), {f"{RACK_PATH}.persistence.size"}),
}
GOOD_CASSANDRA = {
    "V44 the base": cassandra(),
    "V46 version 4.0.0 is welcome": cassandra(version="4.0.0"),
    "V46 version 5.0.2 is welcome": cassandra(version="5.0.2"),
    "W05 version 3": cassandra(version="3"),
    "W06 version 3.9": cassandra(version="3.9"),
    "W08 version 3.9.0": cassandra(version="3.9.0"),
    "no pools": cassandra(nodePools=[]),
    "no image": cassandra(image=...),
}


def in_version(spec: Json, version: str) -> Json:
    """Plugins are objects in v1beta1."""
    if version == V1BETA1 and "plugins" in spec:
        return {**spec, "plugins": [{"name": name} for name in spec["plugins"]]}
    return spec


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", BAD_ELASTICSEARCH)
def test_elasticsearch_refused(case: str, version: str) -> None:
    spec, paths = BAD_ELASTICSEARCH[case]
    assert set(create(ELASTICSEARCH[version], in_version(spec, version)).paths) == paths


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", GOOD_ELASTICSEARCH)
def test_elasticsearch_accepted(case: str, version: str) -> None:
    found = create(ELASTICSEARCH[version], GOOD_ELASTICSEARCH[case])
    assert (found.problems, found.unknown) == ([], [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", BAD_CASSANDRA)
def test_cassandra_refused(case: str, version: str) -> None:
    spec, paths = BAD_CASSANDRA[case]
    assert set(create(CASSANDRA[version], spec).paths) == paths


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", GOOD_CASSANDRA)
def test_cassandra_accepted(case: str, version: str) -> None:
    found = create(CASSANDRA[version], GOOD_CASSANDRA[case])
    assert (found.problems, found.unknown) == ([], [])


def test_V27_elasticsearch_needs_a_pilot_image_in_v1alpha1_only() -> None:
    spec = elasticsearch(pilotImage=...)
    assert create(ELASTICSEARCH[V1ALPHA1], spec).paths == ["spec.pilotImage"]
    assert create(ELASTICSEARCH[V1BETA1], spec).problems == []


def test_V47_cassandra_needs_a_pilot_image_in_v1alpha1_only() -> None:
    spec = cassandra(pilotImage=...)
    assert create(CASSANDRA[V1ALPHA1], spec).paths == ["spec.pilotImage"]
    assert create(CASSANDRA[V1BETA1], spec).problems == []


def test_V31_plugins_are_names_in_v1alpha1_and_objects_in_v1beta1() -> None:
    names = elasticsearch(minimumMasters=2, plugins=["analysis-icu"])
    objects = elasticsearch(minimumMasters=2, plugins=[{"name": "analysis-icu"}])
    assert create(ELASTICSEARCH[V1ALPHA1], names).problems == []
    assert create(ELASTICSEARCH[V1BETA1], objects).problems == []
    assert create(ELASTICSEARCH[V1ALPHA1], objects).paths == ["spec.plugins[0]"]
    assert create(ELASTICSEARCH[V1BETA1], names).paths == ["spec.plugins[0]"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("text", ["3", "3.9", "3.11.1", "3.11.1+build7"])
def test_versions_are_kept_as_they_were_written(text: str, version: str) -> None:
    found = create(CASSANDRA[version], cassandra(version=text))
    assert found.problems == []
    assert found.obj["spec"]["version"] == text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cluster_is_named_so_that_its_services_can_be(version: str) -> None:
    assert create(ELASTICSEARCH[version], elasticsearch(), name="a.b").paths == ["metadata.name"]


@pytest.mark.parametrize("version", VERSIONS)
def test_names_together_have_to_fit_into_a_label(version: str) -> None:
    found = create(CASSANDRA[version], cassandra(), name="a" * 60)
    assert found.paths == ["spec.nodePools[0].name"]
    assert "cass-" + "a" * 60 + "-test" in str(found.problems[0])


def test_the_obsolete_switch_of_persistence_is_unknown_in_v1beta1() -> None:
    spec = elasticsearch(nodePools=[{**MASTERS, "persistence": {"enabled": True, **PERSISTENCE}}])
    found = create(ELASTICSEARCH[V1BETA1], spec)
    assert found.problems == []
    assert found.unknown == ["spec.nodePools[0].persistence.enabled"]


@pytest.mark.parametrize("version", VERSIONS)
def test_protection_from_deletion_is_true_or_false(version: str) -> None:
    key = "navigator.jetstack.io/protect-from-deletion"
    for value, paths in (("true", []), ("false", []), ("yes", [f"metadata.annotations[{key}]"])):
        obj = {"metadata": {"name": "a", "annotations": {key: value}}, "spec": elasticsearch()}
        assert admit(ELASTICSEARCH[version], obj).paths == paths
