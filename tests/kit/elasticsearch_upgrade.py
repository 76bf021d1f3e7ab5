"""A cluster of Elasticsearch that is about to get another version, and what its pods are made from.

sea, test = three_nodes()
sea.edit(test, version=NEW)
sea.sail(test, rounds=2)
assert images(sea) == [OLD, OLD, NEW]
"""

from __future__ import annotations

from typing import Any

from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool

from pilothouse.api.kind_names import Pod, StatefulSet
from pilothouse.api.objects import Object

OLD, NEW = "6.8.22", "6.8.23"


def three_nodes(version: str = OLD, **spec: Any) -> tuple[ElasticsearchHarness, Object]:
    """A cluster that is up, of one pool."""
    sea = ElasticsearchHarness()
    test = sea.add(elastic("test", pools=[pool("data", 3)], version=version, **spec))
    sea.sail(test)
    return sea, test


def images(sea: ElasticsearchHarness) -> list[str]:
    """The tags of what the pods are made from."""
    return [pod.spec["containers"][0]["image"].rpartition(":")[2] for pod in sea.all(Pod)]


def the_set(sea: ElasticsearchHarness, name: str = "es-test-data") -> Object:
    return sea.of(StatefulSet, name)


def image_of(stateful_set: Object) -> str:
    return str(stateful_set.at("spec", "template", "spec")["containers"][0]["image"])
