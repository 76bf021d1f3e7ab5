"""One object under one rule through whole cycles: holding, acting, cooling down, failing, being declined."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.kit.rule_cases import SteppedObject, rule

from pilothouse.rules.action_targets import ActionTarget, TargetDeclined, TargetNotReady
from pilothouse.rules.object_records import ActionRecord
from pilothouse.rules.state_requests import Recommend, StartAction
from pilothouse.rules.verdict import Verdict

MET, NOT_MET, UNKNOWN = Verdict.MET, Verdict.NOT_MET, Verdict.UNKNOWN


def started(stepped: SteppedObject) -> SteppedObject:
    """An object whose first action is under way."""
    stepped.at(0, NOT_MET)
    stepped.at(10, MET)
    stepped.at(30)
    assert stepped.state == "ActiveActionsInProgress"
    return stepped


def test_a_clean_cycle() -> None:
    volume = started(SteppedObject())
    volume.end("Succeeded")
    volume.at(4)
    assert volume.state == "ActiveActionsTaken"
    volume.at(299, NOT_MET)
    assert volume.state == "ActiveActionsTaken"
    volume.at(2)
    assert volume.path == [
        "Initializing", "Normal", "Triggered", "ActiveActionsPending", "ActiveActionsInProgress",
        "ActiveActionsTaken", "Normal",
    ]  # fmt: skip
    assert [item.state for item in volume.record.items] == volume.path
    assert (volume.record.triggers, volume.record.failures) == (1, 0)
    assert list(volume.actions) == [volume.expect_name(1)]


def test_conditions_have_to_hold_for_as_long_as_the_rule_says() -> None:
    volume = SteppedObject()
    volume.at(0, NOT_MET)
    outcome = volume.at(10, MET)
    assert (volume.state, outcome.wake) == ("Triggered", 30.0)
    volume.at(29)
    assert volume.state == "Triggered"
    volume.at(1, NOT_MET)
    assert volume.state == "Normal"
    volume.at(10, MET)
    volume.at(20)
    assert volume.state == "Triggered"
    assert volume.actions == {}


def test_an_action_that_fails_is_tried_again_as_another_one_after_a_growing_pause() -> None:
    volume = started(SteppedObject())
    for failures, pause in ((1, 60), (2, 120), (3, 240)):
        volume.end("Failed", "the storage is full")
        outcome = volume.at(1)
        assert (volume.state, volume.record.failures) == ("ActiveActionsPending", failures)
        assert "the storage is full" in volume.record.items[-1].message
        assert outcome.waiting is not None
        assert outcome.waiting.reason == "BackOff"
        volume.at(pause - 2)
        assert volume.state == "ActiveActionsPending"
        volume.at(3)
        assert volume.state == "ActiveActionsInProgress"
    assert list(volume.actions) == [volume.expect_name(number) for number in (1, 2, 3, 4)]


def test_an_edit_of_the_rule_ends_the_pause_after_a_failure() -> None:
    volume = started(SteppedObject())
    volume.end("Failed")
    volume.at(1)
    volume.rule = rule(generation=2)
    volume.at(1)
    assert volume.state == "ActiveActionsInProgress"
    assert volume.record.failures == 0


def test_a_declined_action_is_considered_again_after_a_growing_pause() -> None:
    """px-T3, px-T7: at its greatest size it is declined, in ActiveActionsInProgress, and nothing is created."""
    largest: dict[str, Any] = {"targets": (TargetDeclined("the volume has 20Gi, and maxsize is 20Gi"),)}
    volume = SteppedObject()
    volume.at(0, MET, **largest)
    for pause in (60, 120, 240, 480, 960, 1920, 3600, 3600):
        volume.at(30, **largest)
        assert volume.state == "ActionsDeclined"
        assert volume.path[-3:] == ["ActiveActionsPending", "ActiveActionsInProgress", "ActionsDeclined"]
        volume.at(pause - 1, **largest)
        assert volume.state == "ActionsDeclined"
        volume.at(1, **largest)
        assert volume.state == "Triggered"
    assert volume.actions == {}


def test_an_edit_of_the_rule_ends_a_decline() -> None:
    """px-T6: a rule whose maxsize is raised acts again at once."""
    largest: dict[str, Any] = {"targets": (TargetDeclined("the volume has 20Gi, and maxsize is 20Gi"),)}
    volume = SteppedObject()
    volume.at(0, MET, **largest)
    volume.at(30, **largest)
    volume.rule = rule(generation=2)
    volume.at(1)
    assert (volume.state, volume.record.failures) == ("Triggered", 0)
    volume.at(30)
    assert volume.state == "ActiveActionsInProgress"


def test_a_decline_that_is_not_called_for_any_more_ends_in_normal() -> None:
    largest: dict[str, Any] = {"targets": (TargetDeclined("the volume has 20Gi, and maxsize is 20Gi"),)}
    volume = SteppedObject()
    volume.at(0, MET, **largest)
    volume.at(30, **largest)
    volume.at(60, NOT_MET)
    assert volume.path[-3:] == ["ActionsDeclined", "Triggered", "Normal"]
    assert volume.record.failures == 0


def test_after_the_cool_down_conditions_have_to_hold_again() -> None:
    volume = started(SteppedObject())
    volume.end("Succeeded")
    volume.at(1)
    volume.at(300)
    assert volume.path[-3:] == ["ActiveActionsTaken", "Normal", "Triggered"]
    volume.at(29)
    assert volume.state == "Triggered"
    volume.at(1)
    assert list(volume.actions) == [volume.expect_name(1), volume.expect_name(2)]


def test_values_from_before_the_last_action_decide_nothing() -> None:
    volume = started(SteppedObject(rule(actionsCoolDownPeriod=0)))
    completed = volume.now
    volume.end("Succeeded")
    volume.at(5, sampled=completed)
    assert volume.state == "Normal"
    volume.at(5, sampled=completed + 7)
    assert volume.state == "Triggered"


def test_a_resize_that_is_still_under_way_is_waited_for() -> None:
    volume = SteppedObject()
    volume.at(0, MET)
    outcome = volume.at(30, targets=(TargetNotReady("13Gi is requested and the volume has 10Gi"),))
    assert volume.state == "ActiveActionsPending"
    assert outcome.waiting is not None
    assert outcome.waiting.reason == "NotReady"
    volume.at(600)
    assert volume.state == "ActiveActionsInProgress"


def test_the_budget_is_the_last_gate() -> None:
    volume = SteppedObject()
    volume.at(0, MET)
    outcome = volume.at(30, budget="5 of 5 actions started within the last hour")
    assert volume.state == "ActiveActionsPending"
    assert outcome.waiting is not None
    assert outcome.waiting.reason == "BudgetSpent"
    assert outcome.wake == 10
    volume.at(10)
    assert volume.state == "ActiveActionsInProgress"


def test_an_action_starts_only_in_a_window() -> None:
    """px-D9: outside it waits, and acts when the window opens and conditions are still met."""
    volume = SteppedObject()
    volume.at(0, MET)
    outcome = volume.at(30, window_opens=75600.0)
    assert (volume.state, outcome.wake) == ("ActionAwaitingWindow", 75600.0)
    volume.at(3600, UNKNOWN)
    assert volume.state == "ActionAwaitingWindow"
    volume.at(72000, MET)
    assert volume.state == "ActiveActionsInProgress"


def test_a_window_that_closes_holds_what_is_pending() -> None:
    volume = started(SteppedObject())
    volume.end("Failed")
    volume.at(1)
    outcome = volume.at(60, window_opens=3600.0)
    assert volume.state == "ActiveActionsPending"
    assert outcome.waiting is not None
    assert (outcome.waiting.reason, outcome.wake) == ("Window", 3600.0)


def test_a_rule_that_recommends_records_what_would_be_done_and_does_nothing() -> None:
    """px-D11: an alert is a rule that recommends."""
    volume = SteppedObject(rule(enforcement="recommend"))
    volume.at(0, MET)
    outcome = volume.step()
    assert outcome.requests == ()
    volume.now += 30
    outcome = volume.step()
    assert outcome.requests == (Recommend("would do openstorage.io.action.volume/resize from 8Gi to 12Gi"),)
    volume.write(outcome)
    for _ in range(100):
        volume.now += 60
        assert volume.step().record == volume.record, "it is recorded once"
    assert volume.state == "Triggered"
    volume.at(10, NOT_MET)
    assert volume.state == "Normal"


def test_a_rule_that_is_edited_to_recommend_stops_before_the_next_action() -> None:
    volume = SteppedObject()
    volume.at(0, MET)
    volume.at(30, budget="spent")
    assert volume.state == "ActiveActionsPending"
    volume.rule = rule(enforcement="recommend", generation=2)
    volume.at(1)
    volume.at(600)
    assert volume.state == "Triggered"
    assert volume.actions == {}


def test_a_rule_that_recommended_acts_once_it_may() -> None:
    volume = SteppedObject(rule(enforcement="recommend"))
    volume.at(0, MET)
    volume.at(30)
    volume.rule = rule(generation=2)
    volume.at(1)
    assert volume.state == "Triggered"
    volume.at(30)
    assert volume.state == "ActiveActionsInProgress"


def test_another_rule_goes_first_and_then_values_are_looked_at_anew() -> None:
    volume = SteppedObject()
    volume.at(0, MET)
    outcome = volume.at(30, blocked="rule heavier goes first")
    assert volume.state == "Triggered"
    assert outcome.waiting is not None
    assert outcome.waiting.reason == "AnotherRule"
    volume.now += 20
    volume.actions["heavier-x-1"] = ActionRecord("heavier", 1, "Succeeded", volume.now)
    volume.at(5)
    volume.at(29)
    assert volume.state == "Triggered", "conditions have to hold after the other rule's action"
    volume.at(1)
    assert volume.state == "ActiveActionsInProgress"


def test_two_actions_are_never_under_way_on_one_object() -> None:
    volume = SteppedObject()
    volume.actions["heavier-x-1"] = ActionRecord("heavier", 1, "Running")
    volume.at(0, MET)
    outcome = volume.at(30)
    assert volume.state == "ActiveActionsPending"
    assert outcome.waiting is not None
    assert outcome.waiting.reason == "AnotherAction"


def test_several_actions_are_done_in_order_and_the_first_failure_stops_them() -> None:
    two = rule(
        actions=[
            {"name": "example.com.action.volume/snapshot"},
            {"name": "openstorage.io.action.volume/resize"},
        ]
    )
    grown = ActionTarget({"to": "12Gi"})
    known: dict[str, Any] = {"targets": (ActionTarget(), grown)}
    volume = SteppedObject(two)
    volume.at(0, MET, **known)
    volume.at(30, **known)
    first = volume.record.action
    volume.end("Succeeded")
    outcome = volume.step(**known)
    assert outcome.requests == (StartAction(f"{first}-1", 1, 1, grown),)
    volume.write(outcome)
    volume.end("Failed")
    volume.at(1, **known)
    assert volume.state == "ActiveActionsPending"
    assert volume.record.action == ""
    volume.at(60, **known)
    assert volume.record.action == volume.expect_name(2), "from the first action on"


def test_an_action_that_was_deleted_is_not_created_again() -> None:
    volume = started(SteppedObject())
    del volume.actions[volume.record.action]
    volume.at(1)
    assert volume.state == "ActiveActionsPending"
    assert "was deleted" in volume.record.items[-1].message
    volume.at(60)
    assert list(volume.actions) == [volume.expect_name(2)]


def test_a_record_that_was_deleted_starts_no_action_under_an_old_number() -> None:
    volume = started(SteppedObject())
    volume.end("Succeeded")
    volume.record = msgspec.structs.replace(volume.record, state=None, triggers=0, action="", until=None)
    volume.at(10, MET)
    volume.at(30)
    assert list(volume.actions) == [volume.expect_name(1), volume.expect_name(2)]
