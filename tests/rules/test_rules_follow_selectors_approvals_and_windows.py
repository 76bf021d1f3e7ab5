"""Acceptance cases that are about what a rule selects, who is asked, when it acts, and what it does without metrics."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.kit.rule_fleet import RuleFleet, claim, rule

from pilothouse.api.kind_names import ActionApproval
from pilothouse.api.objects import Tree


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
        assert fleet.transitions("grow") == {" => Initializing": 1, "Initializing => Normal": 1}
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


def asking() -> Tree:
    found = rule("grow", "usage", "Gt", 50, scalepercentage="100", maxsize="400Gi")
    found["spec"]["enforcement"] = "approvalRequired"
    return found


def test_a_rule_that_asks_first_acts_once_it_is_approved() -> None:
    """px-D3: 8 of 10Gi; it stops and asks; approved, it grows once."""
    with RuleFleet() as fleet:
        fleet.create(asking(), claim("grow", "10Gi"))
        fleet.model(approvals="pending")
        fleet.fill(grow=8)
        fleet.wait(300)
        assert fleet.state("grow") == "ActionAwaitingApproval"
        assert fleet.actions() == []
        fleet.model(approvals="approved")
        fleet.wait(300)
        assert fleet.sizes("grow") == ["20Gi"]
        assert fleet.state("grow") == "Normal"


def test_a_declined_approval_holds_until_it_is_deleted() -> None:
    """px-D3: declined, it has 10Gi until the approval is deleted; then it asks again."""
    with RuleFleet() as fleet:
        fleet.create(asking(), claim("grow", "10Gi"))
        fleet.model(approvals="pending")
        fleet.fill(grow=8)
        fleet.wait(300)
        (first,) = fleet.list(ActionApproval)
        # By hand: the model would delete what it has declined.
        fleet.patch(ActionApproval, first.name, {"spec": {"approvalState": "declined"}}, first.namespace)
        fleet.wait(5)
        assert fleet.state("grow") == "ActionsDeclined"
        assert fleet.sizes("grow") == ["10Gi"]
        fleet.wait(60)
        (second,) = fleet.list(ActionApproval)
        assert second.uid != first.uid
        assert fleet.state("grow") in ("Triggered", "ActionAwaitingApproval")
        fleet.wait(60)
        assert fleet.actions() == []
        fleet.model(approvals="approved")
        fleet.wait(300)
        assert fleet.sizes("grow") == ["20Gi"]


NIGHTS = {
    "timezone": "America/New_York",
    "windows": [
        {"daysOfWeek": ["Mon", "Tue", "Wed", "Thu", "Fri"], "startTime": "02:00", "endTime": "04:00"},
        {"daysOfWeek": ["Saturday", "Sunday"], "startTime": "12:00AM", "endTime": "6:00AM"},
    ],
}


def test_an_action_waits_for_its_window() -> None:
    """px-D9, on a volume: less than 40 % are free, +10 %, at night in New York, where the fleet starts on a
    Wednesday at 19: it waits until Thursday at 2."""
    at_night = rule("grow", "usage", "Gt", 60, scalepercentage="10")
    at_night["spec"] |= {"actionWindow": NIGHTS, "pollInterval": 300}
    with RuleFleet(step=60) as fleet:
        zone = ZoneInfo("America/New_York")
        start = datetime.fromtimestamp(fleet.clock.now(), zone)
        assert f"{start:%a %H:%M}" == "Wed 19:00"
        opens = start.replace(hour=2, minute=0, second=0, microsecond=0) + timedelta(days=1)
        left = opens.timestamp() - fleet.clock.now()
        fleet.create(at_night, claim("grow", "250Gi"))
        fleet.fill(grow=160)
        fleet.wait(1800)
        assert fleet.state("grow") == "ActionAwaitingWindow"
        fleet.wait(left - 2400)
        assert fleet.state("grow") == "ActionAwaitingWindow"
        assert fleet.actions() == []
        fleet.wait(1200)
        (action,) = fleet.actions()
        assert action.at("spec", "target", "to") == "275Gi"
        assert opens.timestamp() <= action.created < opens.timestamp() + 600


def alert(name: str, key: str, operator: str, value: float, hold: int) -> Tree:
    found = rule(name, key, operator, value)
    found["spec"] |= {"enforcement": "recommend", "selector": None}
    found["spec"]["conditions"]["for"] = hold
    return found


def test_alerts_are_rules_that_recommend() -> None:
    """px-D11: above 80 % for five minutes and above 70 % for five minutes; nothing is done, and what would be
    is recorded."""
    with RuleFleet() as fleet:
        fleet.create(alert("critical", "usage", "Gt", 80, 300), alert("warning", "usage", "Gt", 70, 300))
        fleet.create(claim("data", "10Gi"))
        fleet.fill(data=7.5)
        fleet.wait(240)
        assert not fleet.events("ActionRecommended")
        fleet.wait(360)
        assert {name: each.status["state"] for name, each in fleet.objects().items()} == {
            "critical/data": "Normal",
            "warning/data": "Triggered",
        }
        assert sum(fleet.events("ActionRecommended").values()) == 1
        fleet.fill(data=9)
        fleet.wait(600)
        assert {each.status["state"] for each in fleet.objects().values()} == {"Triggered"}
        assert sorted(
            message.split()[1].partition(":")[0] for message in fleet.events("ActionRecommended")
        ) == [
            "critical",
            "warning",
        ]
        fleet.fill(data=6)
        fleet.wait(60)
        assert {each.status["state"] for each in fleet.objects().values()} == {"Normal"}
        assert fleet.actions() == []


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
