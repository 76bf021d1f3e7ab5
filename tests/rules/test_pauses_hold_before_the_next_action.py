"""A pause of a rule, a namespace, an object or everything holds before the next write; what is read goes on.

So does a manager whose rules all only recommend.
"""

from __future__ import annotations

import pytest
from tests.kit.rule_fleet import SPACE, RuleFleet, claim, rule

from pilothouse.api.kind_names import AutopilotRule, ConfigMap, KindName, Namespace, PersistentVolumeClaim
from pilothouse.api.openstorage.pauses import PAUSE_ALL, PAUSED
from pilothouse.rules.ruled_objects import RuleSettings


def annotate(fleet: RuleFleet, noun: KindName, name: str, value: str | None, namespace: str = "") -> None:
    fleet.patch(noun, name, {"metadata": {"annotations": {PAUSED: value}}}, namespace)


@pytest.mark.parametrize(
    ("noun", "name", "namespace"),
    [(AutopilotRule, "grow", ""), (Namespace, SPACE, ""), (PersistentVolumeClaim, "grow", SPACE)],
    ids=["rule", "namespace", "object"],
)
def test_a_pause_holds_until_it_is_taken_away(noun: KindName, name: str, namespace: str) -> None:
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.wait(60)
        annotate(fleet, noun, name, "true", namespace)
        fleet.fill(grow=5)
        fleet.wait(600)
        assert fleet.actions() == []
        (reading,) = fleet.ask("PersistentVolumeClaim", "grow")["answer"]
        assert (reading["conditions"], reading["waiting"]["reason"]) == ("Met", "Paused")
        assert reading["waiting"]["message"] == f"{noun.kind} {name} is paused"
        annotate(fleet, noun, name, None, namespace)
        fleet.wait(300)
        assert fleet.sizes("grow") == ["12Gi"]


def test_all_rules_are_paused_at_once() -> None:
    namespace, name = PAUSE_ALL
    with RuleFleet() as fleet:
        fleet.create(rule("one", "usage", "Gt", 50), rule("two", "usage", "Gt", 50))
        fleet.create(claim("one", "8Gi"), claim("two", "8Gi"))
        fleet.create_config_map(namespace, name, paused="true")
        fleet.fill(one=5, two=5)
        fleet.wait(600)
        assert fleet.actions() == []
        fleet.patch(ConfigMap, name, {"data": {"paused": "false"}}, namespace)
        fleet.wait(300)
        assert {name: fleet.sizes(name) for name in ("one", "two")} == {"one": ["12Gi"], "two": ["12Gi"]}


def test_other_objects_of_a_rule_go_on_while_one_is_paused() -> None:
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50))
        fleet.create(claim("held", "8Gi", case="grow"), claim("free", "8Gi", case="grow"))
        annotate(fleet, PersistentVolumeClaim, "held", "true", SPACE)
        fleet.fill(held=5, free=5)
        fleet.wait(600)
        assert (fleet.sizes("held"), fleet.sizes("free")) == (["8Gi"], ["12Gi"])


def test_a_manager_that_only_recommends_does_nothing_and_says_what_it_would() -> None:
    with RuleFleet(settings=RuleSettings(recommend_only=True)) as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.fill(grow=5)
        fleet.wait(900)
        assert fleet.actions() == []
        assert fleet.sizes("grow") == ["8Gi"]
        assert fleet.state("grow") == "Triggered"
        ((message, count),) = fleet.events("ActionRecommended").items()
        assert message.endswith("would do openstorage.io.action.volume/resize from 8Gi to 12Gi")
        assert count == 1
