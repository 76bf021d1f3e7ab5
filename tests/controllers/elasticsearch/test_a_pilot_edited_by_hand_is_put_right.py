"""Pilots that somebody edits: nothing is restarted for it, nobody waits for it, and the cluster's word stands in the end."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.kit.controller_harness import reasons
from tests.kit.elasticsearch_harness import ElasticsearchHarness
from tests.kit.elasticsearch_upgrade import three_nodes

from pilothouse.api.kind_names import Pilot
from pilothouse.api.navigator.configurations import configuration_hash
from pilothouse.api.navigator.labels import CONFIGURATION
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.runtime.intents import Intent, PatchObject

EDITED, OTHER = "es-test-data-0", "es-test-data-2"
MINE = {"cluster.name": "mine"}


def edit(harness: ElasticsearchHarness, name: str = EDITED) -> Object:
    """As with kubectl."""
    return harness.change(
        harness.of(Pilot, name), lambda tree: tree["spec"]["configuration"]["settings"].update(MINE)
    )


def patched(intents: list[Intent]) -> list[str]:
    return [each.seen.name for each in intents if isinstance(each, PatchObject)]


def started(harness: ElasticsearchHarness, name: str = EDITED) -> str:
    return str(harness.of(Pilot, name).status["lastStartedTime"])


def settings(harness: ElasticsearchHarness, name: str = EDITED) -> dict[str, Any]:
    return dict(harness.of(Pilot, name).at("spec", "configuration", "settings"))


def test_nothing_is_restarted_for_it() -> None:
    harness, test = three_nodes()
    before = started(harness)
    edit(harness)
    harness.report_pilots(test)
    harness.run_until_idle(test)
    assert settings(harness)["cluster.name"] == "test"
    assert started(harness) == before
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")


def test_it_is_put_right_whatever_the_others_are_like() -> None:
    harness, test = three_nodes()
    harness.health = "Red"
    harness.reports["es-test-data-1"] = {"ready": False}
    harness.run_until_idle(test)
    edit(harness)
    harness.run_until_idle(test, rounds=1)
    assert settings(harness)["cluster.name"] == "test"


def test_nobody_waits_for_one_that_is_edited_before_its_turn() -> None:
    harness, test = three_nodes()
    harness.edit(test, config={"a.b": 1})
    edit(harness)
    assert [
        each.seen.name
        for each in harness.decide_cluster(test)
        if isinstance(each, PatchObject) and each.event
    ] == [OTHER]
    harness.run_until_idle(test)
    assert all(settings(harness, name)["a.b"] == 1 for name in harness.names(Pilot))
    assert settings(harness)["cluster.name"] == "test"


def run_with(configuration: Tree, tree: Tree) -> None:
    tree["status"]["configuration"] = configuration


@pytest.mark.parametrize("config", [{}, {"a.b": 1}])
def test_those_that_were_started_with_it_are_restarted_in_their_turn(config: dict[str, Any]) -> None:
    harness, test = three_nodes()
    for name in (EDITED, OTHER):
        edited = edit(harness, name)
        # Its database ended by itself while nobody was there to put it right.
        running = {"generation": edited.generation, "hash": configuration_hash(edited.spec)}
        harness.change(edited, partial(run_with, running))
    harness.edit(test, config=config)
    harness.reports["es-test-data-1"] = {"ready": False}
    harness.report_pilots(test)
    intents = harness.decide_cluster(test)
    assert "NodeNotReady" in reasons(intents), "it holds data like any other"
    assert patched(intents) == []
    harness.reports.clear()
    harness.report_pilots(test)
    assert patched(harness.decide_cluster(test)) == [OTHER], "one at a time"
    harness.run_until_idle(test)
    for name in harness.names(Pilot):
        assert config.items() <= settings(harness, name).items()
        assert settings(harness, name)["cluster.name"] == "test"
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")


def test_one_that_is_edited_before_it_could_follow_its_cluster_goes_first() -> None:
    harness, test = three_nodes()
    harness.edit(test, config={"a.b": 1})
    harness.step(elasticsearch_clusters, test)
    assert settings(harness, OTHER)["a.b"] == 1
    edit(harness, OTHER)
    assert patched(harness.decide_cluster(test)) == [OTHER]
    harness.run_until_idle(test)
    assert all(settings(harness, name)["a.b"] == 1 for name in harness.names(Pilot))
    assert settings(harness, OTHER)["cluster.name"] == "test"


def test_a_pilot_that_nobody_has_vouched_for_is_vouched_for_without_a_restart() -> None:
    harness, test = three_nodes()
    before = started(harness)
    harness.change(harness.of(Pilot, EDITED), lambda tree: tree["metadata"]["annotations"].pop(CONFIGURATION))
    harness.run_until_idle(test)
    pilot = harness.of(Pilot, EDITED)
    assert pilot.annotations[CONFIGURATION] == configuration_hash(pilot.spec)
    assert started(harness) == before
