"""Approvals: one for each object, rule generation and exact target, and none but the one that was asked for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.kit.rule_cases import GROWN, SteppedObject, rule

from pilothouse.rules.action_targets import ActionTarget, TargetDeclined, TargetNotReady
from pilothouse.rules.object_records import ApprovalRecord
from pilothouse.rules.state_requests import (
    AskApproval,
    DescribeApproval,
    DiscardApproval,
    StartAction,
    WithdrawApproval,
)
from pilothouse.rules.verdict import Verdict

MET, NOT_MET, UNKNOWN = Verdict.MET, Verdict.NOT_MET, Verdict.UNKNOWN


def asking(**fields: Any) -> SteppedObject:
    """An object that waits for its approval."""
    volume = SteppedObject(rule(enforcement="approvalRequired", **fields))
    volume.at(0, MET)
    volume.at(30)
    assert volume.state == "ActionAwaitingApproval"
    assert volume.approval is not None
    assert volume.record.approval == volume.approval.uid
    return volume


def test_nothing_is_done_before_it_is_approved() -> None:
    """px-D3: it stops in ActionAwaitingApproval; approved, it acts once."""
    volume = asking()
    volume.at(3600)
    assert volume.actions == {}
    volume.decide("approved")
    volume.at(5)
    assert volume.state == "ActiveActionsInProgress"
    assert len(volume.actions) == 1


def test_declined_it_stays_so_until_the_approval_is_deleted() -> None:
    """px-D3, px-T16."""
    volume = asking()
    volume.decide("declined")
    volume.at(5)
    assert volume.state == "ActionsDeclined"
    assert volume.record.items[-1].approval == "grow-pvc-1"
    volume.at(7200, NOT_MET)
    volume.at(7200, MET)
    assert volume.state == "ActionsDeclined"
    volume.approval = None
    volume.at(5)
    assert volume.state == "Triggered"
    volume.at(30)
    assert volume.state == "ActionAwaitingApproval"
    assert volume.approval is not None
    assert (volume.approval.uid, volume.approval.state) == ("approval-2", "pending")


def test_it_is_withdrawn_when_conditions_are_not_met_any_more() -> None:
    volume = asking()
    volume.verdict = NOT_MET
    outcome = volume.step()
    assert outcome.requests == (WithdrawApproval(),)
    assert outcome.record.state == "Normal"


def test_no_data_withdraws_nothing() -> None:
    volume = asking()
    volume.verdict = UNKNOWN
    assert volume.step().requests == ()


def test_each_trigger_needs_an_approval_of_its_own() -> None:
    volume = asking()
    volume.decide("approved")
    volume.at(5)
    volume.end("Succeeded")
    volume.at(1)
    volume.at(300)
    volume.at(30)
    assert volume.state == "ActionAwaitingApproval"
    assert volume.approval is not None
    assert (volume.approval.uid, volume.approval.state) == ("approval-2", "pending")
    assert len(volume.actions) == 1


@pytest.mark.parametrize("decided", ["approved", "declined", "canceled"])
def test_one_that_was_not_asked_for_counts_for_nothing(decided: str) -> None:
    """Somebody creates it beforehand, under the name that it would have."""
    volume = SteppedObject(rule(enforcement="approvalRequired"))
    volume.approval = ApprovalRecord("forged", decided, generation=1, target=GROWN.fields)
    volume.at(0, MET)
    volume.now += 30
    outcome = volume.step()
    assert outcome.requests == (DiscardApproval(),)
    volume.write(outcome)
    volume.at(0)
    assert volume.state == "ActionAwaitingApproval"
    assert volume.approval.uid == "approval-1"
    assert volume.actions == {}


def test_one_that_is_replaced_by_an_approved_one_counts_for_nothing() -> None:
    volume = asking()
    volume.approval = ApprovalRecord("forged", "approved", generation=1, target=GROWN.fields)
    assert volume.step().requests == (DiscardApproval(),)


def test_what_has_changed_since_is_asked_anew() -> None:
    volume = asking()
    volume.decide("approved")
    larger = ActionTarget({"from": "12Gi", "to": "18Gi"}, 6)
    volume.at(5, targets=(larger,))
    assert volume.state == "ActionAwaitingApproval"
    assert volume.approval is not None
    assert (volume.approval.uid, volume.approval.state) == ("approval-2", "pending")
    assert volume.approval.target == larger.fields
    assert volume.actions == {}


def test_other_words_of_a_trial_are_not_asked_anew() -> None:
    def said(usage: str) -> tuple[ActionTarget]:
        return (ActionTarget({"moves": "db/data-0=fast", "summary": f"tier default {usage} % used"}),)

    volume = SteppedObject(rule(enforcement="approvalRequired"))
    volume.at(0, MET, targets=said("13"))
    volume.at(30, targets=said("13"))
    volume.decide("approved")
    volume.at(5, targets=said("14"))
    assert volume.state == "ActiveActionsInProgress"
    assert len(volume.actions) == 1


def test_a_rule_that_was_edited_asks_anew() -> None:
    volume = asking()
    volume.decide("approved")
    volume.rule = rule(enforcement="approvalRequired", generation=2)
    volume.at(5)
    assert volume.state == "ActionAwaitingApproval"
    assert volume.actions == {}


def test_an_approval_whose_actions_were_changed_is_asked_anew() -> None:
    volume = asking()
    assert volume.approval is not None
    volume.approval = msgspec.structs.replace(volume.approval, state="approved", as_asked=False)
    assert volume.step().requests == (DiscardApproval(),)


def test_an_approval_expires() -> None:
    volume = asking()
    assert volume.approval is not None
    volume.approval = msgspec.structs.replace(volume.approval, expires_in=50.0)
    assert volume.step().wake == 50.0
    volume.approval = msgspec.structs.replace(volume.approval, state="approved", expires_in=0.0)
    assert volume.step().requests == (DiscardApproval(),)


def test_what_was_approved_and_has_changed_while_it_was_pending_is_asked_anew() -> None:
    volume = asking()
    volume.decide("approved")
    volume.at(5, budget="spent")
    assert volume.state == "ActiveActionsPending"
    volume.at(5, targets=(ActionTarget({"from": "12Gi", "to": "18Gi"}),))
    assert volume.state == "ActionAwaitingApproval"
    assert volume.actions == {}


def test_a_rule_that_asks_no_more_withdraws_what_it_asked() -> None:
    volume = asking()
    volume.rule = rule(generation=2)
    outcome = volume.step()
    assert outcome.requests == (WithdrawApproval(),)
    volume.write(outcome)
    volume.at(1)
    assert volume.state == "ActiveActionsInProgress"


def test_an_approval_outside_the_window_waits_for_the_window() -> None:
    volume = asking()
    volume.decide("approved")
    volume.at(5, window_opens=3600.0)
    assert volume.state == "ActionAwaitingWindow"
    volume.at(3600)
    assert volume.state == "ActiveActionsInProgress"


def test_an_action_that_failed_is_tried_again_under_the_same_approval() -> None:
    volume = asking()
    volume.decide("approved")
    volume.at(5)
    volume.end("Failed")
    volume.at(1)
    volume.at(60)
    assert volume.state == "ActiveActionsInProgress"
    assert volume.approvals == 1


def test_no_one_is_asked_for_what_would_be_declined() -> None:
    volume = SteppedObject(rule(enforcement="approvalRequired"))
    largest: dict[str, Any] = {"targets": (TargetDeclined("maxsize"),)}
    volume.at(0, MET, **largest)
    volume.at(30, **largest)
    assert volume.state == "ActionsDeclined"
    assert volume.approvals == 0


def test_no_one_is_asked_before_there_is_a_target() -> None:
    volume = SteppedObject(rule(enforcement="approvalRequired"))
    growing: dict[str, Any] = {"targets": (TargetNotReady("a resize is under way"),)}
    volume.at(0, MET)
    volume.at(30, **growing)
    before = volume.record
    for _ in range(50):
        volume.at(60, **growing)
    assert volume.record == before
    volume.at(1)
    volume.at(30)
    assert volume.state == "ActionAwaitingApproval"


def test_a_crash_between_any_two_writes_asks_once_and_acts_once() -> None:
    volume = SteppedObject(rule(enforcement="approvalRequired"))
    volume.at(0, MET)
    volume.now += 30
    asked: list[type] = []
    for _ in range(20):
        outcome = volume.step()
        asked.extend(type(one) for one in outcome.requests)
        volume.crash(outcome)
        again = volume.step()
        asked.extend(type(one) for one in again.requests)
        volume.write(again)
        if volume.approval is not None and volume.record.approval == volume.approval.uid:
            volume.decide("approved")
    assert volume.state == "ActiveActionsInProgress"
    assert asked.count(AskApproval) == 1
    assert asked.count(DescribeApproval) >= 1
    assert asked.count(StartAction) == 1
