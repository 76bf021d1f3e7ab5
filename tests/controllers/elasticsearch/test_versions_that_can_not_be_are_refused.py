"""Versions that nodes do not get: who can't go back, and ways that Elasticsearch does not go."""

from __future__ import annotations

import pytest
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool
from tests.kit.elasticsearch_upgrade import NEW, OLD, images, three_nodes

from pilothouse.api.kind_names import ElasticsearchCluster, Pod
from pilothouse.api.navigator.upgrade_paths import refusal
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.runtime.intents import RecordEvent


def test_reverting_half_way_stops_and_says_who_can_not_go_back() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    sea.sail(test, rounds=2)
    assert images(sea) == [OLD, OLD, NEW]
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")
    message = sea.of(ElasticsearchCluster, "test").condition("Degraded")["message"]  # type: ignore[index]
    assert "es-test-data-2 is at" in message
    assert "es-test-data-1" not in message
    sea.remove(sea.of(Pod, "es-test-data-2"))
    sea.remove(sea.of(Pod, "es-test-data-0"))
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW], "each comes back as it was"
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [NEW] * 3


def test_who_can_not_go_back_is_told_of_all_pools_whatever_else_goes_on() -> None:
    sea = ElasticsearchHarness()
    pools = [pool("data", 2, "data"), pool("master", 1, "master")]
    test = sea.add(elastic("test", pools=pools, version=NEW))
    sea.sail(test)
    sea.says["es-test-data-0"] = {"broken": True}
    sea.sail(test)
    sea.edit(test, version=OLD)
    warned = [
        intent.event for intent in sea.step(elasticsearch_clusters, test) if isinstance(intent, RecordEvent)
    ]
    assert warned == ["ErrUpdateVersion"]
    sea.sail(test)
    assert sea.condition(test, "Progressing") == ("True", "NodesStarting")
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")
    said = sea.of(ElasticsearchCluster, "test").condition("Degraded")["message"]  # type: ignore[index]
    assert "es-test-data-0, es-test-data-1, es-test-master-0 are at 6.8.23 and can't go back" in said


def test_two_refusals_are_both_told() -> None:
    sea = ElasticsearchHarness()
    test = sea.add(elastic("test", pools=[pool("data", 2, "data"), pool("master", 1, "master")], version=NEW))
    sea.sail(test)
    sea.edit(test, version=OLD, nodePools=[pool("master", 1, "master")])
    sea.sail(test)
    said = sea.of(ElasticsearchCluster, "test").condition("Degraded")["message"]  # type: ignore[index]
    assert "can't go back" in said
    assert "nowhere to move it" in said


def test_what_nobody_has_moved_to_can_be_taken_back() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    sea.step(elasticsearch_clusters, test)
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3
    assert sea.condition(test, "Degraded") == ("False", "AsAsked")


def test_a_size_can_be_changed_while_a_version_is_refused() -> None:
    sea, test = three_nodes(NEW)
    sea.edit(test, version=OLD)
    sea.edit_pool(test, "data", replicas=4)
    sea.sail(test)
    assert images(sea) == [NEW] * 4


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("7.17.9", "7.17.29", ""),
        ("7.17.29", "8.17.0", ""),
        ("6.8.23", "7.17.9", ""),
        ("7.17.29", "7.17.9", "can't go back"),
        ("6.8.23", "8.17.0", "go to the last 7.x in between"),
        ("7.10.2", "8.17.0", "go to 7.17 or later first"),
    ],
)
def test_only_ways_that_elasticsearch_goes(old: str, new: str, says: str) -> None:
    assert says in refusal(old, new)
    assert bool(says) == bool(refusal(old, new))


@pytest.mark.parametrize("version", ["5.6.16", "6.7.2", "9.0.0", "99.1.0"])
def test_a_version_that_no_pilot_runs_is_told_with_those_that_they_do(version: str) -> None:
    sea = ElasticsearchHarness()
    sea.lacks = {version}
    test = sea.add(elastic("test", pools=[pool("data", 1)], version=version))
    sea.sail(test)
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")
    said = sea.of(ElasticsearchCluster, "test").condition("Degraded")["message"]  # type: ignore[index]
    assert f"Elasticsearch {version}: put spec.version to one of 6.8, 7 or 8" in said
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [NEW]
    assert sea.condition(test, "Degraded") == ("False", "AsAsked")


def test_nobody_is_moved_to_a_version_that_no_pilot_runs() -> None:
    sea, test = three_nodes("8.18.0")
    sea.edit(test, version="9.0.0")
    sea.sail(test)
    assert images(sea) == ["8.18.0"] * 3
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")
