"""Questions: what was measured last, why nothing is done, and what would be; for the namespace of the question only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.rule_fleet import RuleFleet, claim, rule

from pilothouse.api.kind_names import ActionApproval, AutopilotRule, Decision, Namespace, Question
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.pauses import PAUSED
from pilothouse.base.rfc3339 import parse_time
from pilothouse.rules.question_answers import KEPT, MOST_QUESTIONS


@pytest.fixture
def fleet() -> Iterator[RuleFleet]:
    with RuleFleet() as running:
        yield running


def only(answer: dict[str, Any]) -> dict[str, Any]:
    (reading,) = answer["answer"]
    return dict(reading)


def test_values_state_timer_and_what_would_be_done(fleet: RuleFleet) -> None:
    fleet.create(rule("data", "usage", "Gt", 50, scalepercentage="50"), claim("data", "8Gi"))
    fleet.fill(data=2)
    fleet.wait(30)
    answer = fleet.ask("PersistentVolumeClaim", "data")
    assert answer["answeredBy"] == "autopilot"
    found = only(answer)
    assert (found["rule"], found["object"], found["conditions"]) == ("data", "data", "NotMet")
    assert found["state"] == "Normal"
    assert "waiting" not in found
    (value,) = found["values"]
    assert (value["expression"], value["value"]) == ("usage", "25")
    assert (value["operator"], value["threshold"]) == ("Gt", ["50"])
    assert "reached" not in value
    assert value["time"] <= answer["time"]

    fleet.fill(data=5)
    fleet.wait(15)
    answer = fleet.ask("AutopilotRule", "data")
    found = only(answer)
    assert (found["conditions"], found["state"]) == ("Met", "Triggered")
    assert found["waiting"]["reason"] == "Hold"
    assert found["waiting"]["message"] == "conditions have to hold for 30 seconds"
    assert found["waiting"]["until"] > answer["time"]
    assert found["would"] == "volume/resize from 8Gi to 12Gi"


def test_a_flood_of_questions_gets_no_more_than_so_many_answers_a_minute(fleet: RuleFleet) -> None:
    fleet.create(rule("data", "usage", "Gt", 50), claim("data", "8Gi"))
    fleet.fill(data=2)
    fleet.wait(30)
    for _ in range(MOST_QUESTIONS):
        fleet.ask_later("PersistentVolumeClaim", "data")
    fleet.wait(1)
    refused = fleet.ask("PersistentVolumeClaim", "data")
    assert "answer" not in refused
    assert refused["message"].endswith("were answered within a minute: ask again in a minute")
    fleet.wait(KEPT + 1)
    assert only(fleet.ask("PersistentVolumeClaim", "data"))["state"] == "Normal"


def test_deleting_answered_questions_gets_no_more_answers(fleet: RuleFleet) -> None:
    fleet.create(rule("data", "usage", "Gt", 50), claim("data", "8Gi"))
    fleet.fill(data=2)
    fleet.wait(30)
    for _ in range(MOST_QUESTIONS):
        fleet.ask_later("PersistentVolumeClaim", "data")
    fleet.wait(1)
    for question in fleet.list(Question):
        assert question.status["answer"]
        fleet.delete(Question, question.name)
    assert "answer" not in fleet.ask("PersistentVolumeClaim", "data")
    fleet.wait(KEPT + 1)
    assert only(fleet.ask("PersistentVolumeClaim", "data"))["state"] == "Normal"


def test_no_data_is_unknown_and_says_why(fleet: RuleFleet) -> None:
    fleet.create(rule("data", "usage", "Gt", 50), claim("data", "8Gi"))
    fleet.wait(30)
    for metrics, why in [
        ("empty", "no series names the object"),
        ("away", "ProviderUnavailable: the condition Ready of the rule says more"),
    ]:
        fleet.model(metrics=metrics)
        fleet.wait(30)
        found = only(fleet.ask("PersistentVolumeClaim", "data"))
        assert (found["conditions"], found["unknown"]) == ("Unknown", why)
        assert [value.get("value", "") for value in found["values"]] == [""]


def test_a_value_from_before_the_last_action_is_unknown(fleet: RuleFleet) -> None:
    fleet.create(rule("data", "usage", "Gt", 50), claim("data", "8Gi"))
    fleet.fill(data=5)
    fleet.edit("data", pollInterval=600, conditions={"for": 0}, actionsCoolDownPeriod=600)
    for _ in range(300):
        if any(one.at("status", "completionTime") for one in fleet.actions()):
            break
        fleet.wait(5)
    found = only(fleet.ask("PersistentVolumeClaim", "data"))
    assert found["state"] == "ActiveActionsTaken"
    assert found["waiting"]["reason"] == "CoolDown"
    assert found["unknown"] == "the values were measured before the last action on the object was complete"


def test_when_the_threshold_comes(fleet: RuleFleet) -> None:
    fleet.create(rule("data", "usage", "Gt", 50), claim("data", "8Gi"))
    fleet.fill(data=2)
    fleet.wait(30)
    # From 25 % to 37.5 % in 50 minutes: the 12.5 % that are missing take as long.
    for step in range(1, 51):
        fleet.fill(data=2 + step * 0.02)
        fleet.wait(60)
    answer = fleet.ask("PersistentVolumeClaim", "data")
    (value,) = only(answer)["values"]
    assert float(value["value"]) == pytest.approx(37.5)
    assert parse_time(value["reached"]) - parse_time(answer["time"]) == pytest.approx(3000, rel=0.1)
    # It does not come if the value falls.
    fleet.fill(data=1)
    fleet.wait(20)
    (value,) = only(fleet.ask("PersistentVolumeClaim", "data"))["values"]
    assert "reached" not in value
    # Values of the smaller volume are no measure for the larger one.
    fleet.fill(data=5)
    fleet.wait(180)
    assert fleet.sizes("data") == ["12Gi"]
    (value,) = only(fleet.ask("PersistentVolumeClaim", "data"))["values"]
    assert float(value["value"]) == pytest.approx(41.6667)
    assert "reached" not in value


def decision_about(fleet: RuleFleet, name: str) -> Object:
    """The Decision of the rules about a claim, which ``pilothouse why`` shows."""
    found = [one for one in fleet.list(Decision) if one["controller"] == "rule-objects"]
    (decided,) = [one for one in found if one["object"]["name"] == name]
    return decided


def test_what_it_waits_for_is_what_its_decision_says(fleet: RuleFleet) -> None:
    fleet.create(rule("data", "usage", "Gt", 50), claim("data", "8Gi"))
    fleet.edit("data", enforcement="approvalRequired")
    fleet.fill(data=5)
    fleet.model(approvals="pending")
    fleet.wait(70)
    found = only(fleet.ask("PersistentVolumeClaim", "data"))
    assert found["state"] == "ActionAwaitingApproval"
    decided = decision_about(fleet, "data")
    assert decided["waiting"]["reason"] == found["waiting"]["reason"] == "Approval"
    assert decided["waiting"]["message"] == f"rule data: {found['waiting']['message']}"
    (approval,) = fleet.list(ActionApproval)
    assert found["waiting"]["message"] == f"ActionApproval {approval.name} has to be approved"
    assert decided["waiting"]["remedy"] == found["waiting"]["remedy"]
    assert "spec.approvalState" in found["waiting"]["remedy"]

    fleet.patch(ActionApproval, approval.name, {"spec": {"approvalState": "declined"}}, approval.namespace)
    fleet.wait(30)
    found = only(fleet.ask("PersistentVolumeClaim", "data"))
    assert found["waiting"]["message"] == f"the declined ActionApproval {approval.name} has to be deleted"


def test_a_pause_and_a_decline_are_named(fleet: RuleFleet) -> None:
    fleet.create(rule("data", "usage", "Gt", 50, maxsize="8Gi"), claim("data", "8Gi"))
    fleet.fill(data=5)
    fleet.wait(70)
    found = only(fleet.ask("PersistentVolumeClaim", "data"))
    assert (found["state"], found["waiting"]["reason"]) == ("ActionsDeclined", "BackOff")
    assert "the volume has 8Gi, and maxsize is 8Gi" in found["waiting"]["message"]
    assert found["would"] == "volume/resize is declined: the volume has 8Gi, and maxsize is 8Gi"
    assert decision_about(fleet, "data")["waiting"]["message"] == f"rule data: {found['waiting']['message']}"
    fleet.patch(AutopilotRule, "data", {"metadata": {"annotations": {PAUSED: "true"}}})
    fleet.wait(5)
    found = only(fleet.ask("AutopilotRule", "data"))
    assert found["waiting"] == {
        "reason": "Paused",
        "message": "AutopilotRule data is paused",
        "remedy": "pilothouse rule resume",
    }


def test_an_answer_is_about_its_own_namespace(fleet: RuleFleet) -> None:
    fleet.create(
        {"apiVersion": "v1", "kind": Namespace.kind, "metadata": {"name": "other"}},
        rule("data", "usage", "Gt", 50),
        claim("data", "8Gi"),
    )
    fleet.wait(30)
    assert len(fleet.ask("AutopilotRule", "data")["answer"]) == 1
    nothing = "no AutopilotRule {} selects an object in other"
    # The same words for a rule that exists and one that does not.
    for name in ("data", "missing"):
        answer = fleet.ask("AutopilotRule", name, "other")
        assert (answer.get("answer", []), answer["message"]) == ([], nothing.format(name))
    answer = fleet.ask("PersistentVolumeClaim", "data", "other")
    missing = "there is no PersistentVolumeClaim data in namespace other"
    assert (answer.get("answer", []), answer["message"]) == ([], missing)


def test_a_claim_without_rules_is_answered_too(fleet: RuleFleet) -> None:
    fleet.create(claim("data", "8Gi"))
    fleet.wait(10)
    answer = fleet.ask("PersistentVolumeClaim", "data")
    assert answer["message"] == "no AutopilotRule selects the PersistentVolumeClaim data"


def test_questions_are_gone_after_a_minute(fleet: RuleFleet) -> None:
    fleet.ask("PersistentVolumeClaim", "data")
    fleet.wait(KEPT / 2)
    assert len(fleet.list(Question)) == 1
    fleet.wait(KEPT / 2 + 5)
    assert not fleet.list(Question)
