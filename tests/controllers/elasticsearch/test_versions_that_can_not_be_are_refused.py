"""Versions that nodes do not get: who can't go back, and ways that Elasticsearch does not go."""

from __future__ import annotations

import pytest
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool
from tests.kit.elasticsearch_upgrade import NEW, OLD, images, three_nodes

from pilothouse.api.kind_names import Pod, StatefulSet
from pilothouse.api.navigator.upgrade_paths import refusal
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.runtime.intents import RecordEvent


def test_reverting_half_way_stops_and_says_who_can_not_go_back() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    harness.run_until_idle(test, rounds=2)
    assert images(harness) == [OLD, OLD, NEW]
    harness.edit(test, version=OLD)
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")
    message = harness.message(test, "Degraded")
    assert "es-test-data-2 is at" in message
    assert "es-test-data-1" not in message
    harness.remove(harness.of(Pod, "es-test-data-2"))
    harness.remove(harness.of(Pod, "es-test-data-0"))
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW], "each comes back as it was"
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 3


def test_who_can_not_go_back_is_told_of_all_pools_whatever_else_goes_on() -> None:
    harness = ElasticsearchHarness()
    pools = [pool("data", 2, "data"), pool("master", 1, "master")]
    test = harness.add(elastic("test", pools=pools, version=NEW))
    harness.run_until_idle(test)
    harness.reports["es-test-data-0"] = {"broken": True}
    harness.run_until_idle(test)
    harness.edit(test, version=OLD)
    warned = [
        intent.event
        for intent in harness.step(elasticsearch_clusters, test)
        if isinstance(intent, RecordEvent)
    ]
    assert warned == ["ErrUpdateVersion"]
    harness.run_until_idle(test)
    assert harness.condition(test, "Progressing") == ("True", "NodesStarting")
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")
    said = harness.message(test, "Degraded")
    assert "es-test-data-0, es-test-data-1, es-test-master-0 are at 6.8.23 and can't go back" in said


def test_two_refusals_are_both_told() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(
        elastic("test", pools=[pool("data", 2, "data"), pool("master", 1, "master")], version=NEW)
    )
    harness.run_until_idle(test)
    harness.edit(test, version=OLD, nodePools=[pool("master", 1, "master")])
    harness.run_until_idle(test)
    said = harness.message(test, "Degraded")
    assert "can't go back" in said
    assert "nowhere to move it" in said


def test_what_nobody_has_moved_to_can_be_taken_back() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    harness.step(elasticsearch_clusters, test)
    harness.edit(test, version=OLD)
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")


def test_a_size_can_be_changed_while_a_version_is_refused() -> None:
    harness, test = three_nodes(NEW)
    harness.edit(test, version=OLD)
    harness.edit_pool(test, "data", replicas=4)
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 4


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


@pytest.mark.parametrize("version", ["5.6.16", "6.2.0", "6.7.2", "9.0.0", "99.1.0"])
def test_a_version_that_no_pilot_runs_is_told_with_those_that_they_do(version: str) -> None:
    harness = ElasticsearchHarness()
    harness.missing_images = {version}
    test = harness.add(elastic("test", pools=[pool("data", 1)], version=version))
    harness.run_until_idle(test)
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")
    said = harness.message(test, "Degraded")
    assert f"Elasticsearch {version}: set spec.version to a 6.8, 7 or 8 release" in said
    # No pod of it waits for an image that would not help.
    assert harness.all(StatefulSet) == []
    assert harness.condition(test, "Progressing") == ("False", "VersionRefused")
    assert harness.condition(test, "VersionAccepted") == ("False", "VersionRefused")
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [NEW]
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")


def test_nobody_is_moved_to_a_version_that_no_pilot_runs() -> None:
    harness, test = three_nodes("8.18.0")
    harness.edit(test, version="9.0.0")
    harness.run_until_idle(test)
    assert images(harness) == ["8.18.0"] * 3
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")
