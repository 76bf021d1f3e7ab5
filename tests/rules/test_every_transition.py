"""Every transition that the table of states names, each from what causes it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.rule_cases import GROWN, UID, rule, situation

from pilothouse.rules.action_targets import TargetDeclined
from pilothouse.rules.object_records import ActionRecord, ApprovalRecord, ObjectRecord
from pilothouse.rules.object_states import TRANSITIONS, advance
from pilothouse.rules.rule_case import RuleCase, action_name
from pilothouse.rules.verdict import Verdict

NOW = 1000.0
MET, NOT_MET, UNKNOWN = Verdict.MET, Verdict.NOT_MET, Verdict.UNKNOWN
ACTING, ASKING = rule(), rule(enforcement="approvalRequired")
NAME = action_name("grow", UID, 1)


def record(state: str | None, **fields: Any) -> ObjectRecord:
    return ObjectRecord(**{"state": state, "since": 900.0, "generation": 1, **fields})


def action(phase: str, **fields: Any) -> dict[str, Any]:
    return {"actions": {NAME: ActionRecord("grow", 1, phase, 990.0 if phase else None)}, **fields}


def approval(state: str, **fields: Any) -> dict[str, Any]:
    return {"approval": ApprovalRecord("a1", state, generation=1, target=GROWN.fields), **fields}


SPECIFIED = [
    # from, to, rule, record, verdict, what else is known
    (None, "Initializing", ACTING, {}, UNKNOWN, {}),
    ("Initializing", "Normal", ACTING, {}, NOT_MET, {}),
    ("Initializing", "Triggered", ACTING, {}, MET, {}),
    ("Normal", "Triggered", ACTING, {}, MET, {}),
    ("Triggered", "Normal", ACTING, {"until": 1010.0}, NOT_MET, {}),
    ("Triggered", "ActionAwaitingApproval", ASKING, {"until": NOW}, MET, {}),
    ("Triggered", "ActiveActionsPending", ACTING, {"until": NOW}, MET, {}),
    ("Triggered", "ActionAwaitingWindow", ACTING, {"until": NOW}, MET, {"window_opens": 60.0}),
    ("ActionAwaitingWindow", "ActiveActionsPending", ACTING, {"triggers": 1}, MET, {}),
    ("ActionAwaitingWindow", "Normal", ACTING, {"triggers": 1}, NOT_MET, {"window_opens": 60.0}),
    ("ActionAwaitingApproval", "ActiveActionsPending", ASKING, {"approval": "a1"}, MET, approval("approved")),
    ("ActionAwaitingApproval", "ActionsDeclined", ASKING, {"approval": "a1"}, MET, approval("declined")),
    ("ActionAwaitingApproval", "Normal", ASKING, {"approval": "a1"}, NOT_MET, approval("pending")),
    ("ActiveActionsPending", "ActiveActionsInProgress", ACTING, {"triggers": 1}, MET, {}),
    ("ActiveActionsPending", "Normal", ACTING, {"triggers": 1}, NOT_MET, {}),
    ("ActiveActionsInProgress", "ActiveActionsTaken", ACTING, {"triggers": 1, "action": NAME}, UNKNOWN,
     action("Succeeded")),
    ("ActiveActionsInProgress", "ActiveActionsPending", ACTING, {"triggers": 1, "action": NAME}, UNKNOWN,
     action("Failed")),
    ("ActiveActionsInProgress", "ActionsDeclined", ACTING, {"triggers": 1, "action": NAME}, UNKNOWN,
     action("Declined")),
    ("ActiveActionsInProgress", "ActionsDeclined", ACTING, {"triggers": 1}, MET,
     {"targets": (TargetDeclined("it has its maxsize"),)}),
    ("ActionsDeclined", "Triggered", ASKING, {"approval": "a1"}, MET, {}),
    ("ActionsDeclined", "Triggered", ACTING, {"failures": 1, "until": NOW}, MET, {}),
    ("ActiveActionsTaken", "Normal", ACTING, {"until": NOW}, UNKNOWN, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "to", "terms", "on_record", "verdict", "known"),
    SPECIFIED,
    ids=[f"{row[0]}-{row[1]}-{number}" for number, row in enumerate(SPECIFIED)],
)
def test_transition(
    source: str | None,
    to: str,
    terms: Any,
    on_record: dict[str, Any],
    verdict: Verdict,
    known: dict[str, Any],
) -> None:
    before = record(source, **on_record)
    outcome = advance(RuleCase(terms, UID, before, situation(verdict, **known), NOW))
    first = outcome.transitions[0]
    assert (first.source, first.to) == (source, to)
    assert outcome.record.items[0].state == to
    assert outcome.record.items[0].message == first.because


def test_the_table_has_every_specified_transition_and_few_others() -> None:
    table = {(row.source, row.to) for row in TRANSITIONS if row.source != row.to}
    specified = {(row[0], row[1]) for row in SPECIFIED}
    assert specified <= table
    assert table - specified == {
        # A rule that is edited to recommend only.
        ("ActionAwaitingApproval", "Triggered"),
        ("ActionAwaitingWindow", "Triggered"),
        ("ActiveActionsPending", "Triggered"),
        # Approved while no window is open; approved, and changed since.
        ("ActionAwaitingApproval", "ActionAwaitingWindow"),
        ("ActiveActionsPending", "ActionAwaitingApproval"),
    }


@pytest.mark.parametrize(
    "state",
    [
        "Initializing", "Normal", "Triggered", "ActionAwaitingApproval", "ActionAwaitingWindow",
        "ActiveActionsPending", "ActionsDeclined",
    ],
)  # fmt: skip
def test_no_data_changes_no_state(state: str) -> None:
    """Timers are over, and nothing follows from that without a verdict."""
    asking = state == "ActionAwaitingApproval"
    before = record(state, until=None if asking else 950.0, triggers=1, approval="a1" if asking else "")
    known = approval("pending") if asking else {}
    terms = ASKING if asking else ACTING
    outcome = advance(RuleCase(terms, UID, before, situation(UNKNOWN, **known), NOW))
    assert outcome.record == before
    assert outcome.requests == ()


def test_only_the_last_twenty_items_are_kept() -> None:
    now, present = NOW, record("Normal")
    for number in range(30):
        verdict = NOT_MET if number % 2 else MET
        now += 1
        present = advance(RuleCase(ACTING, UID, present, situation(verdict), now)).record
    assert len(present.items) == 20
    assert present.items[-1].time == now
