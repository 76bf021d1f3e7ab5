"""Two rules that pull one object both ways: the heavier acts, and the other does not undo it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.pool_fleet import PoolFleet
from tests.kit.rule_fleet import rule

from pilothouse.api.attributes_classes import current_class
from pilothouse.api.objects import Tree
from pilothouse.api.openstorage.actions import MOVE, REDUNDANCY, RESIZE, RESOURCES, SCALE, SET_IOPS
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.opposite_actions import are_opposite


def pull(name: str, weight: int, above: float, action: str = SET_IOPS, **params: str) -> Tree:
    found = rule(name, "usage", "Gt", above)
    found["spec"] |= {
        "weight": weight,
        "selector": {"matchLabels": {"case": "data"}},
        "actions": [{"name": action, "params": params}],
    }
    return found


def iops(name: str, weight: int, above: float, step: str) -> Tree:
    return pull(name, weight, above, classes="bronze,silver,gold", step=step)


@pytest.fixture
def fleet() -> Iterator[PoolFleet]:
    with PoolFleet() as running:
        for name, limit in (("bronze", "100"), ("silver", "200"), ("gold", "400")):
            running.attributes(name, iops=limit)
        running.volume("data", 8, attributes="silver")
        running.wait(60)
        yield running


def test_the_lighter_does_not_undo_what_the_heavier_wants(fleet: PoolFleet) -> None:
    fleet.create(iops("faster", 5, 50, "up"), iops("cheaper", 0, 10, "down"))
    fleet.fill(data=6)
    fleet.wait(1800)
    assert [one.spec["rule"] for one in fleet.actions()] == ["faster"]
    assert current_class(fleet.claim("data")) == "gold"


def test_it_does_not_either_while_the_heavier_has_nothing_more_to_do(fleet: PoolFleet) -> None:
    """The heavier is declined from the first, as the volume has what it wants."""
    fleet.create(iops("cheaper", 5, 10, "down"), pull("faster", 0, 50, scalepercentage="50"))
    fleet.patch_claim("data", volumeAttributesClassName="bronze")
    fleet.wait(60)
    fleet.fill(data=6)
    fleet.wait(1800)
    assert fleet.actions() == []
    assert current_class(fleet.claim("data")) == "bronze"
    assert "ActionsDeclined" in fleet.states_of("cheaper", "data")


def test_the_other_says_so(fleet: PoolFleet) -> None:
    fleet.create(iops("faster", 5, 50, "up"), iops("cheaper", 0, 10, "down"))
    fleet.fill(data=6)
    fleet.wait(900)
    for name, other in (("cheaper", "faster"), ("faster", "cheaper")):
        status, message = fleet.ready(name)
        assert status == "True"
        assert f"other rules select one of them too, and the heavier acts: {other}" in message
    found = {each["rule"]: each for each in fleet.ask("PersistentVolumeClaim", "data")["answer"]}
    assert "rule faster goes first (weight 5), and does the opposite" in str(found["cheaper"])


def test_once_the_heavier_is_content_the_lighter_acts(fleet: PoolFleet) -> None:
    fleet.create(iops("faster", 5, 50, "up"), iops("cheaper", 0, 10, "down"))
    fleet.fill(data=6)
    fleet.wait(900)
    fleet.fill(data=2)
    fleet.wait(4200)
    assert {one.spec["rule"] for one in fleet.actions()} == {"faster", "cheaper"}
    assert current_class(fleet.claim("data")) == "bronze"


def test_a_heavier_rule_whose_budget_is_spent_holds_up_its_opposite_alone(fleet: PoolFleet) -> None:
    heavier = pull("larger", 5, 50, RESIZE, scalepercentage="50")
    heavier["spec"]["budget"] = {"growthPerDay": "1Mi"}
    fleet.create(heavier, iops("faster", 0, 50, "up"))
    fleet.fill(data=6)
    fleet.wait(900)
    assert [one.spec["rule"] for one in fleet.actions()] == ["faster"]
    assert fleet.states_of("larger", "data")[-1] == "ActiveActionsPending"


def test_a_lighter_rule_does_not_undo_what_a_spent_budget_keeps_from_happening(fleet: PoolFleet) -> None:
    heavier = iops("faster", 5, 50, "up")
    heavier["spec"]["budget"] = {"actionsPerHour": 0}
    fleet.create(heavier, iops("cheaper", 0, 10, "down"))
    fleet.fill(data=6)
    fleet.wait(900)
    assert fleet.actions() == []
    assert current_class(fleet.claim("data")) == "silver"


@pytest.mark.parametrize(
    ("budget", "root"),
    [
        ({"actionsPerHour": 0}, "0 actions began within an hour, and at most 0 may (actionsPerHour)"),
        ({}, "the volume has class gold, the highest of bronze, silver, gold; the back-off has to end"),
    ],
)
def test_a_rule_that_waits_for_another_says_what_that_one_waits_for(
    fleet: PoolFleet, budget: Tree, root: str
) -> None:
    heavier = iops("faster", 5, 50, "up")
    heavier["spec"]["budget"] = budget
    fleet.create(heavier, iops("cheaper", 0, 10, "down"))
    fleet.fill(data=6)
    fleet.wait(900)
    found = {each["rule"]: each for each in fleet.ask("PersistentVolumeClaim", "data")["answer"]}
    first = "rule faster goes first (weight 5), and does the opposite; rule faster waits: "
    assert found["cheaper"]["waiting"]["message"] == first + root


def test_a_heavier_rule_at_its_limit_does_not_hold_up_another_action(fleet: PoolFleet) -> None:
    """Only what pulls the other way waits."""
    larger = rule("larger", "usage", "Gt", 50, scalepercentage="50")
    larger["spec"]["selector"] = {"matchLabels": {"case": "data"}}
    fleet.create(iops("faster", 5, 20, "up"), larger)
    fleet.fill(data=6)
    fleet.wait(900)
    assert "12Gi" in [one.at("spec", "target", "to") for one in fleet.actions()]


@pytest.mark.parametrize(
    ("name", "one", "other", "opposite"),
    [
        (SCALE, {"step": "1"}, {"step": "-1"}, True),
        (SCALE, {"step": "1"}, {"step": "2"}, False),
        (SCALE, {"replicas": "3"}, {"replicas": "5"}, True),
        (SCALE, {"replicas": "3"}, {"step": "1"}, True),
        (SCALE, {"replicas": "3"}, {"replicas": "3"}, False),
        (SET_IOPS, {"scalepercentage": "50"}, {"scalepercentage": "-50"}, True),
        (SET_IOPS, {"scalepercentage": "50"}, {"classes": "bronze,silver", "step": "up"}, False),
        (RESOURCES, {"resource": "cpu", "scalepercentage": "50"},
            {"resource": "cpu", "scalepercentage": "-50"}, True),
        (RESOURCES, {"resource": "cpu", "scalepercentage": "50"},
            {"resource": "memory", "scalepercentage": "-50"}, False),
        (REDUNDANCY, {"copies": "1"}, {"copies": "2"}, True),
        (MOVE, {"tier": "fast"}, {"tier": "slow"}, True),
        (MOVE, {"tier": "fast"}, {"tier": "fast"}, False),
        (RESIZE, {"scalepercentage": "50"}, {"scalesize": "1Gi"}, False),
    ],
)  # fmt: skip
def test_which_actions_are_opposite(
    name: str, one: dict[str, str], other: dict[str, str], opposite: bool
) -> None:
    first, second = RuleAction(name=name, params=one), RuleAction(name=name, params=other)
    assert are_opposite(first, second) is are_opposite(second, first) is opposite


def test_actions_with_different_names_are_not_opposite() -> None:
    up, moved = RuleAction(name=SCALE, params={"step": "1"}), RuleAction(name=MOVE, params={"tier": "slow"})
    assert not are_opposite(up, moved)
