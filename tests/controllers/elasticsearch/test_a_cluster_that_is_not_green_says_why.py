"""A cluster whose nodes are all as asked and that is not Green does not say that all is well."""

from __future__ import annotations

import pytest
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool

from pilothouse.api.kind_names import Pilot, Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters

WHY = "the replica of shard 0 of logs can't be allocated: es-test-data-1: the node is above the low watermark"


def sailed(health: str, shards: Tree) -> tuple[ElasticsearchHarness, Object]:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("data", 2)]))
    harness.run_until_idle(test)
    harness.health, harness.shards = health, shards
    harness.run_until_idle(test)
    return harness, harness.of(test.noun, "test")


def message(cluster: Object, kind: str) -> str:
    return str((cluster.condition(kind) or {})["message"])


@pytest.mark.parametrize("kind", ["Available", "Progressing"])
def test_how_many_shards_are_without_a_node_and_why(kind: str) -> None:
    harness, test = sailed("Yellow", {"active": 5, "unassigned": 2, "explanation": WHY})
    assert f"health is Yellow: 2 shards are unassigned; {WHY}." in message(test, kind)
    assert harness.condition(test, "Available") == ("True", "HealthYellow")
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")
    assert test.status["shards"]["explanation"] == WHY


def test_a_sentence_of_elasticsearch_ends_once() -> None:
    said = "the shard was lost; restore it from a snapshot."
    _, test = sailed("Red", {"active": 5, "unassigned": 1, "explanation": said})
    assert message(test, "Available").endswith(f"1 shard is unassigned; {said}")


def test_that_shards_are_being_built() -> None:
    _, test = sailed("Yellow", {"active": 5, "initializing": 1, "unassigned": 1})
    assert "health is Yellow: 1 shard is unassigned, 1 shard is initializing." in message(test, "Progressing")


def test_a_red_one_too() -> None:
    harness, test = sailed("Red", {"active": 5, "unassigned": 1})
    assert "can't be reached: 1 shard is unassigned." in message(test, "Available")
    assert harness.condition(test, "Degraded") == ("True", "HealthRed")


def test_a_green_one_is_as_asked() -> None:
    _, test = sailed("Green", {"active": 7})
    assert message(test, "Progressing") == "Everything is as specified."
    assert message(test, "Available") == "The cluster's health is Green."


def test_a_green_one_that_nobody_can_ask_is_not_available() -> None:
    harness, test = sailed("Green", {"active": 7})
    # The pilots have seen it get green; of the pods nobody is behind the service yet.
    for pod in harness.all(Pod):
        harness.set_ready(pod, False)
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Available") == ("False", "NoNodeReady")
    told = message(harness.of(test.noun, "test"), "Available")
    assert "health is Green, but no node that takes requests is ready behind service es-test" in told
    harness.set_ready(harness.of(Pod, "es-test-data-1"), True)
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Available") == ("True", "HealthGreen")


def test_masters_that_are_ready_take_no_requests() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("master", 1, "master"), pool("data", 1, "data")]))
    harness.run_until_idle(test)
    assert harness.condition(test, "Available") == ("True", "HealthGreen")
    harness.set_ready(harness.of(Pod, "es-test-data-0"), False)
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Available") == ("False", "NoNodeReady")


def outdated(harness: ElasticsearchHarness, test: Object) -> str:
    """What is said while nobody has counted the shards."""
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Progressing") == ("True", "HealthOutdated")
    return message(harness.of(test.noun, "test"), "Progressing")


def test_not_everything_is_as_asked_before_the_shards_are_counted_without_a_node_that_left() -> None:
    harness, test = sailed("Green", {"active": 7})
    leader = next(one for one in harness.all(Pilot) if one.at("status", "elasticsearch", "cluster"))

    def add(tree: Tree) -> None:
        tree["status"]["elasticsearch"]["cluster"]["members"]["es-test-data-2"] = "2026-01-01T00:00:00Z"

    harness.change(leader, add)
    assert "have not been counted since es-test-data-2 left" in outdated(harness, test)
    harness.run_until_idle(test)
    assert message(harness.of(test.noun, "test"), "Progressing") == "Everything is as specified."


def test_nor_before_they_are_counted_with_a_node_that_was_started_anew() -> None:
    harness, test = sailed("Green", {"active": 7})
    again = {"lastStartedTime": "2026-01-01T00:00:00Z"}
    harness.change(harness.of(Pilot, "es-test-data-1"), lambda tree: tree["status"].update(again))
    assert "have not been counted since es-test-data-1 joined" in outdated(harness, test)


def test_nodes_that_others_have_added_to_the_cluster_are_not_waited_for() -> None:
    harness, test = sailed("Green", {"active": 7})
    leader = next(one for one in harness.all(Pilot) if one.at("status", "elasticsearch", "cluster"))

    def add(tree: Tree) -> None:
        tree["status"]["elasticsearch"]["cluster"]["members"]["a-laptop"] = ""

    harness.change(leader, add)
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")
