"""Manifests with the facts of the original system's documentation are taken unchanged; what they had too much is said."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.navigator.clusters import CASSANDRA, ELASTICSEARCH, PILOT, V1ALPHA1, VERSIONS, Json
from tests.kit.admission import admit
from tests.kit.manifests import loads

from pilothouse.api.navigator.elasticsearch import minimum_masters

RESOURCES: Json = {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "3Gi"}}


def volume(size: str, storage_class: str) -> Json:
    return {"enabled": True, "size": size, "storageClass": storage_class}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_elasticsearch_demo(version: str) -> None:
    pools: list[Any] = [
        {"name": "master", "replicas": 3, "roles": ["master"]},
        {"name": "mixed", "replicas": 2, "roles": ["data", "ingest"]},
    ]
    spec = {
        "version": "5.6.2",
        "securityContext": {"runAsUser": 1000},
        "pilotImage": {
            "repository": "quay.io/jetstack/navigator-pilot-elasticsearch",
            "tag": "v0.1.0",
            "pullPolicy": "Always",
        },
        "nodePools": [
            {**pool, "resources": RESOURCES, "persistence": volume("10Gi", "standard")} for pool in pools
        ],
    }
    found = admit(ELASTICSEARCH[version], {"metadata": {"name": "demo"}, "spec": spec})
    assert found.problems == []
    switches = [f"spec.nodePools[{index}].persistence.enabled" for index in (0, 1)]
    assert found.unknown == ([] if version == V1ALPHA1 else switches)
    assert minimum_masters(found.obj["spec"]) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_the_cassandra_demo(version: str) -> None:
    spec = {
        "version": "3.11.1",
        "image": {"repository": "cassandra", "tag": "3", "pullPolicy": "IfNotPresent"},
        "pilotImage": {"repository": "quay.io/jetstack/navigator-pilot-cassandra", "tag": "v0.1.0"},
        "nodePools": [
            {
                "name": "region-1-zone-a",
                "replicas": 3,
                "datacenter": "region-1",
                "rack": "zone-a",
                "resources": RESOURCES,
                "persistence": volume("5Gi", "default"),
            }
        ],
    }
    found = admit(CASSANDRA[version], {"metadata": {"name": "demo"}, "spec": spec})
    assert found.problems == []
    assert found.obj["spec"]["pilotImage"]["pullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_pool_that_says_little_is_completed(version: str) -> None:
    image = {"repository": "a", "tag": "b"}
    spec = {"version": "3.11.1", "pilotImage": image, "nodePools": [{"name": "a"}]}
    found = admit(CASSANDRA[version], {"spec": spec})
    assert found.obj["spec"]["nodePools"] == [
        {"name": "a", "replicas": 1, "rack": "a", "datacenter": "navigator-default-datacenter"}
    ]


def test_a_pilot_that_owns_itself() -> None:
    owner = {
        "apiVersion": "navigator.jetstack.io/v1alpha1",
        "kind": "Pilot",
        "name": "p",
        "uid": "u",
        "controller": True,
    }
    assert admit(PILOT[V1ALPHA1], {"metadata": {"name": "p", "ownerReferences": [owner]}}).problems == []


def test_manifests_are_read_as_kubectl_reads_them() -> None:
    (obj,) = loads("a: 13:00\nb: 2017-10-01T19:00:00+00\nc: 12\nd: 1.5\ne: true\nf: 2024-01-01")
    assert obj == {
        "a": "13:00",
        "b": "2017-10-01T19:00:00+00",
        "c": 12,
        "d": 1.5,
        "e": True,
        "f": "2024-01-01",
    }
