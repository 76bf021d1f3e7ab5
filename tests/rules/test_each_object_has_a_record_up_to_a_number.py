"""AutopilotRuleObjects: each object has one from the first look on, up to 20,000; above it those that are not Normal."""

from __future__ import annotations

import pytest
from tests.kit.rule_fleet import RuleFleet, claim, rule
from tests.kit.watched_rules import bound_claim, watched

from pilothouse.api.objects import Object
from pilothouse.rules import rule_watch
from pilothouse.rules.rule_watch import MOST_RULE_OBJECTS

MANY = 20_050


async def test_above_twenty_thousand_those_that_are_met_come_first() -> None:
    tree = rule("grow", "usage", "Gt", 50)
    tree["metadata"] |= {"uid": "rule-1", "generation": 1}
    tree["spec"]["selector"] = None
    grow = Object.of(tree)
    claims = [bound_claim(f"c{number}") for number in range(MANY)]
    full = {one.name for one in claims[-30:]}
    found = await watched([grow], claims, lambda one: 90.0 if one.name in full else 10.0)
    assert MOST_RULE_OBJECTS == 20_000
    assert len(found.named) == MOST_RULE_OBJECTS
    assert full <= found.named
    findings = found.findings(grow)
    assert (findings.objects, findings.without_object) == (MANY, MANY - MOST_RULE_OBJECTS)


def test_the_rule_says_so_and_what_is_met_acts_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_watch, "MOST_RULE_OBJECTS", 4)
    names = [f"v{number}" for number in range(8)]
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50))
        fleet.create(*(claim(name, "8Gi", case="grow") for name in names))
        fleet.wait(60)
        recorded = {one.partition("/")[2] for one in fleet.objects()}
        assert len(recorded) == 4
        assert fleet.ready("grow")[0] == "True"
        assert (
            "too many AutopilotRuleObjects to keep one of each object that is Normal"
            in fleet.ready("grow")[1]
        )

        left_out = sorted(set(names) - recorded)
        fleet.fill(**dict.fromkeys(left_out, 5))
        fleet.wait(300)
        assert [fleet.sizes(name) for name in left_out] == [["12Gi"]] * 4
        fleet.wait(600)
        assert len(fleet.objects()) <= 4, "those that are Normal again give way"
