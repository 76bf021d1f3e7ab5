"""Pilots that somebody edits: nothing is restarted for it, nobody waits for it, and the cluster's word stands in the end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import reasons
from tests.kit.elasticsearch_harness import ElasticsearchHarness
from tests.kit.elasticsearch_upgrade import three_nodes

from pilothouse.api.kind_names import Pilot
from pilothouse.api.navigator.configurations import configuration_hash
from pilothouse.api.navigator.labels import CONFIGURATION
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.runtime.intents import Intent, PatchObject

EDITED, OTHER = "es-test-data-0", "es-test-data-2"
MINE = {"cluster.name": "mine"}


def edit(sea: ElasticsearchHarness, name: str = EDITED) -> Object:
    """As with kubectl."""
    return sea.change(
        sea.of(Pilot, name), lambda tree: tree["spec"]["configuration"]["settings"].update(MINE)
    )


def patched(intents: list[Intent]) -> list[str]:
    return [each.seen.name for each in intents if isinstance(each, PatchObject)]


def started(sea: ElasticsearchHarness, name: str = EDITED) -> str:
    return str(sea.of(Pilot, name).status["lastStartedTime"])


def settings(sea: ElasticsearchHarness, name: str = EDITED) -> dict[str, Any]:
    return dict(sea.of(Pilot, name).at("spec", "configuration", "settings"))


def test_nothing_is_restarted_for_it() -> None:
    sea, test = three_nodes()
    before = started(sea)
    edit(sea)
    sea.play_pilots(test)
    sea.sail(test)
    assert settings(sea)["cluster.name"] == "test"
    assert started(sea) == before
    assert sea.condition(test, "Progressing") == ("False", "AsAsked")


def test_it_is_put_right_whatever_the_others_are_like() -> None:
    sea, test = three_nodes()
    sea.health = "Red"
    sea.says["es-test-data-1"] = {"ready": False}
    sea.sail(test)
    edit(sea)
    sea.sail(test, rounds=1)
    assert settings(sea)["cluster.name"] == "test"


def test_nobody_waits_for_one_that_is_edited_before_its_turn() -> None:
    sea, test = three_nodes()
    sea.edit(test, config={"a.b": 1})
    edit(sea)
    assert [each.seen.name for each in sea.decided(test) if isinstance(each, PatchObject) and each.event] == [
        OTHER
    ]
    sea.sail(test)
    assert all(settings(sea, name)["a.b"] == 1 for name in sea.names(Pilot))
    assert settings(sea)["cluster.name"] == "test"


@pytest.mark.parametrize("config", [{}, {"a.b": 1}])
def test_those_that_were_started_with_it_are_restarted_in_their_turn(config: dict[str, Any]) -> None:
    sea, test = three_nodes()
    for name in (EDITED, OTHER):
        edited = edit(sea, name)
        # Its database ended by itself while nobody was there to put it right.
        running = {"generation": edited.generation, "hash": configuration_hash(edited.spec)}
        sea.change(edited, lambda tree, running=running: tree["status"].update(configuration=running))  # type: ignore[misc]
    sea.edit(test, config=config)
    sea.says["es-test-data-1"] = {"ready": False}
    sea.play_pilots(test)
    intents = sea.decided(test)
    assert "NodeNotReady" in reasons(intents), "it holds data like any other"
    assert patched(intents) == []
    sea.says.clear()
    sea.play_pilots(test)
    assert patched(sea.decided(test)) == [OTHER], "one at a time"
    sea.sail(test)
    for name in sea.names(Pilot):
        assert config.items() <= settings(sea, name).items()
        assert settings(sea, name)["cluster.name"] == "test"
    assert sea.condition(test, "Progressing") == ("False", "AsAsked")


def test_one_that_is_edited_before_it_could_follow_its_cluster_goes_first() -> None:
    sea, test = three_nodes()
    sea.edit(test, config={"a.b": 1})
    sea.step(elasticsearch_clusters, test)
    assert settings(sea, OTHER)["a.b"] == 1
    edit(sea, OTHER)
    assert patched(sea.decided(test)) == [OTHER]
    sea.sail(test)
    assert all(settings(sea, name)["a.b"] == 1 for name in sea.names(Pilot))
    assert settings(sea, OTHER)["cluster.name"] == "test"


def test_a_pilot_that_nobody_has_vouched_for_is_vouched_for_without_a_restart() -> None:
    sea, test = three_nodes()
    before = started(sea)
    sea.change(sea.of(Pilot, EDITED), lambda tree: tree["metadata"]["annotations"].pop(CONFIGURATION))
    sea.sail(test)
    pilot = sea.of(Pilot, EDITED)
    assert pilot.annotations[CONFIGURATION] == configuration_hash(pilot.spec)
    assert started(sea) == before
