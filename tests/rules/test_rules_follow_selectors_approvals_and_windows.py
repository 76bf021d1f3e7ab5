"""Acceptance cases that are about what a rule selects, who is asked, when it acts, and what it does without metrics."""

from __future__ import annotations

import pytest
from tests.kit.rule_fleet import RuleFleet, claim, rule


def test_a_claim_without_the_label_or_the_namespace_is_never_an_object() -> None:
    """px-D2, px-T20: selectors of claims and of namespaces."""
    by_label = rule("labelled", "usage", "Gt", 50)
    by_label["spec"] |= {
        "selector": {"matchLabels": {"app": "postgres"}},
        "namespaceSelector": {"matchLabels": {"type": "db"}},
    }
    everything = rule("all", "usage", "Gt", 50)
    everything["spec"] |= {"selector": None, "namespaceSelector": {"matchLabels": {"type": "db"}}}
    elsewhere = rule("elsewhere", "usage", "Gt", 50)
    elsewhere["spec"] |= {"selector": None, "namespaceSelector": {"matchLabels": {"type": "web"}}}
    with RuleFleet(namespace_labels={"type": "db"}) as fleet:
        fleet.create(by_label, everything, elsewhere)
        fleet.create(claim("one", "8Gi", app="postgres"), claim("two", "8Gi", app="web"))
        fleet.wait(60)
        assert set(fleet.objects()) == {"labelled/one", "all/one", "all/two"}


def test_a_rule_whose_selector_is_edited_stops_and_goes_on() -> None:
    """px-T13."""
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.wait(60)
        assert fleet.state("grow") == "Normal"
        fleet.edit("grow", selector={"matchLabels": {"case": "other"}})
        fleet.fill(grow=5)
        fleet.wait(300)
        assert fleet.objects() == {}
        assert fleet.actions() == []
        fleet.edit("grow", selector={"matchLabels": {"case": "grow"}})
        fleet.wait(300)
        assert fleet.sizes("grow") == ["12Gi"]


@pytest.mark.parametrize("how", ["away", "empty", "stale"])
def test_without_metrics_nothing_grows_and_with_them_it_catches_up(how: str) -> None:
    """px-T18: ten minutes without metrics."""
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.wait(60)
        fleet.model(metrics=how)
        fleet.fill(grow=10)
        fleet.wait(600)
        assert fleet.actions() == []
        assert fleet.state("grow") == "Normal"
        fleet.model(metrics="ok")
        fleet.wait(900)
        assert fleet.sizes("grow") == ["12Gi", "18Gi", "27Gi"]


def test_without_the_engine_nothing_grows_and_with_it_it_catches_up() -> None:
    """px-T18: the manager is stopped for ten minutes in the middle of its work."""
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.fill(grow=10)
        fleet.wait(30)
        assert fleet.state("grow") == "Triggered"
        fleet.manager.crash()
        fleet.wait(600)
        assert fleet.actions() == []
        fleet.manager.start()
        fleet.wait(900)
        assert fleet.sizes("grow") == ["12Gi", "18Gi", "27Gi"]


@pytest.mark.parametrize(("answer", "expected"), [("approved", ["20Gi"]), ("declined", ["10Gi"])])
def test_a_rule_that_asks_first_does_what_it_is_told(answer: str, expected: list[str]) -> None:
    """px-D3: 8 of 10Gi; approved, it grows once; declined, it stays."""
    asking = rule("grow", "usage", "Gt", 50, scalepercentage="100", maxsize="400Gi")
    asking["spec"]["enforcement"] = "approvalRequired"
    with RuleFleet() as fleet:
        fleet.create(asking, claim("grow", "10Gi"))
        fleet.model(approvals="pending")
        fleet.fill(grow=8)
        fleet.wait(300)
        assert fleet.state("grow") == "ActionAwaitingApproval"
        assert fleet.actions() == []
        fleet.model(approvals=answer)
        fleet.wait(300)
        assert fleet.sizes("grow") == expected


def test_an_action_waits_for_its_window() -> None:
    """px-D9, on a volume: in the evening in New York, where the fleet starts on a Wednesday at 7."""
    in_the_evening = rule("grow", "usage", "Gt", 50, scalepercentage="10")
    in_the_evening["spec"]["actionWindow"] = {
        "timezone": "America/New_York",
        "windows": [
            {"daysOfWeek": ["Wed", "Thursday"], "startTime": "07:15PM", "endTime": "20:00"},
            {"daysOfWeek": ["Saturday", "Sunday"], "startTime": "12:00AM", "endTime": "6:00AM"},
        ],
    }
    with RuleFleet() as fleet:
        fleet.create(in_the_evening, claim("grow", "8Gi"))
        fleet.fill(grow=4.2)
        fleet.wait(300)
        assert fleet.state("grow") == "ActionAwaitingWindow"
        fleet.wait(540)
        assert fleet.actions() == []
        fleet.wait(120)
        assert [one.at("spec", "target", "to") for one in fleet.actions()] == ["9012Mi"]


def test_alerts_are_rules_that_recommend() -> None:
    """px-D11: above 80 % for five minutes, nothing is done, and what would be is recorded."""
    alert = rule("alert", "usage", "Gt", 80)
    alert["spec"] |= {"enforcement": "recommend"}
    alert["spec"]["conditions"]["for"] = 300
    with RuleFleet() as fleet:
        fleet.create(alert, claim("alert", "10Gi"))
        fleet.fill(alert=9)
        fleet.wait(600)
        assert fleet.state("alert") == "Triggered"
        assert fleet.actions() == []
        fleet.fill(alert=7)
        fleet.wait(60)
        assert fleet.state("alert") == "Normal"


def test_of_two_rules_the_heavier_acts() -> None:
    heavy = rule("heavy", "usage", "Gt", 50, scalepercentage="100")
    heavy["spec"] |= {"weight": 5, "selector": None}
    light = rule("light", "usage", "Gt", 50, scalepercentage="10")
    light["spec"] |= {"selector": None}
    with RuleFleet() as fleet:
        fleet.create(light, heavy, claim("data", "8Gi"))
        fleet.fill(data=5)
        fleet.wait(600)
        assert [one.spec["rule"] for one in fleet.actions()] == ["heavy"]
        assert fleet.sizes("data") == ["16Gi"]


@pytest.mark.long
def test_a_hundred_rules_on_a_hundred_volumes() -> None:
    """px-T10: every one comes to 18Gi."""
    names = [f"v{number}" for number in range(100)]
    with RuleFleet() as fleet:
        for name in names:
            fleet.create(rule(name, "capacity", "Lt", 20, scalepercentage="50", maxsize="18Gi"))
            fleet.create(claim(name, "8Gi"))
        fleet.wait(900)
        assert {name: fleet.sizes(name) for name in names} == {name: ["12Gi", "18Gi"] for name in names}
