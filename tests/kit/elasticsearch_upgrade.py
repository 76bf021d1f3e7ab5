"""A cluster of Elasticsearch that is about to get another version, and what its pods are made from.

harness, test = three_nodes()
harness.edit(test, version=NEW)
harness.run_until_idle(test, rounds=2)
assert images(harness) == [OLD, OLD, NEW]
"""

from __future__ import annotations

from typing import Any

from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool

from pilothouse.api.kind_names import Pod, StatefulSet
from pilothouse.api.objects import Object

OLD, NEW = "6.8.22", "6.8.23"


def three_nodes(version: str = OLD, **spec: Any) -> tuple[ElasticsearchHarness, Object]:
    """A cluster that is up, of one pool."""
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("data", 3)], version=version, **spec))
    harness.run_until_idle(test)
    return harness, test


def images(harness: ElasticsearchHarness) -> list[str]:
    """The tags of what the pods are made from."""
    return [pod.spec["containers"][0]["image"].rpartition(":")[2] for pod in harness.all(Pod)]


def the_set(harness: ElasticsearchHarness, name: str = "es-test-data") -> Object:
    return harness.of(StatefulSet, name)


def image_of(stateful_set: Object) -> str:
    return str(stateful_set.at("spec", "template", "spec")["containers"][0]["image"])
