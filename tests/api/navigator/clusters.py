"""The base values of the validation cases, and how a case is run in either version."""

from __future__ import annotations

import copy
from typing import Any

from tests.kit.admission import Admission, admit

from pilothouse.api.navigator import cluster_kinds
from pilothouse.meta.kind import Kind

V1ALPHA1 = "v1alpha1"
V1BETA1 = "v1beta1"
VERSIONS = (V1ALPHA1, V1BETA1)
Json = dict[str, Any]

IMAGE: Json = {"repository": "something", "tag": "latest", "pullPolicy": "IfNotPresent"}
PERSISTENCE: Json = {"size": "10Gi"}
MASTERS: Json = {"name": "test", "replicas": 3, "roles": ["master"], "persistence": PERSISTENCE}
RACK: Json = {
    "name": "test",
    "replicas": 3,
    "datacenter": "datacenter-1",
    "rack": "rack-1",
    "persistence": PERSISTENCE,
}
ELASTICSEARCH = {V1ALPHA1: cluster_kinds.ELASTICSEARCH_V1ALPHA1, V1BETA1: cluster_kinds.ELASTICSEARCH_V1BETA1}
CASSANDRA = {V1ALPHA1: cluster_kinds.CASSANDRA_V1ALPHA1, V1BETA1: cluster_kinds.CASSANDRA_V1BETA1}
PILOT = {V1ALPHA1: cluster_kinds.PILOT_V1ALPHA1, V1BETA1: cluster_kinds.PILOT_V1BETA1}


def without(value: Json, *names: str) -> Json:
    return {name: child for name, child in value.items() if name not in names}


def elasticsearch(**changes: Any) -> Json:
    """A good spec, with fields replaced; ``...`` takes one away."""
    return _changed(
        {"version": "5.6.2", "pilotImage": IMAGE, "image": IMAGE, "nodePools": [MASTERS]}, changes
    )


def cassandra(**changes: Any) -> Json:
    """A good spec, with fields replaced; ``...`` takes one away."""
    return _changed({"version": "3.11.2", "pilotImage": IMAGE, "image": IMAGE, "nodePools": [RACK]}, changes)


def create(kind: Kind, spec: Json, name: str = "test") -> Admission:
    return admit(kind, {"metadata": {"name": name}, "spec": spec})


def update(kind: Kind, before: Json, after: Json) -> Admission:
    stored = create(kind, before)
    assert stored.problems == []
    return admit(kind, {**copy.deepcopy(stored.obj), "spec": after}, stored.obj)


def _changed(spec: Json, changes: Json) -> Json:
    merged = {**copy.deepcopy(spec), **copy.deepcopy({k: v for k, v in changes.items() if v is not ...})}
    return without(merged, *(name for name, value in changes.items() if value is ...))
