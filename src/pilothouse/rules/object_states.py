"""The states of one object under one rule, as a table of transitions.

    outcome = advance(RuleCase(rule, claim.uid, record, situation, now))
    outcome.requests        # what to do first: ask for an approval, start an action
    outcome.record          # what to write into the AutopilotRuleObject then, if it differs
    outcome.transitions     # for events

``TRANSITIONS`` is read from top to bottom: the first row whose source is the present state and whose
condition holds is taken, until none is. A row from a state to itself changes only the record, and ends the
step, as does a row with requests: the world has to answer first.

* What happens is derived from the record and the objects in view, never from memory. Timers are moments in
  the record, so that they outlive a restart.
* Requests come before the record: a crash between the two repeats a request under the same name, which exists
  already. The number of a trigger is in the record before its action is created, and the action exists before
  the state is ActiveActionsInProgress: one that is missing then was deleted, and is not created again.
* A timer that ends later than its length allows was written under another clock, and starts anew.
* A row that needs a verdict is not taken while it is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pilothouse.api.openstorage.v1alpha1 import ObjectState
from pilothouse.base.backoff import Backoff
from pilothouse.rules.action_targets import TRIAL, ActionTarget, TargetDeclined, TargetNotReady
from pilothouse.rules.object_records import (
    AWAITING_APPROVAL,
    AWAITING_WINDOW,
    DECLINED,
    IN_PROGRESS,
    INITIALIZING,
    NORMAL,
    PENDING,
    TAKEN,
    TRIGGERED,
    ObjectRecord,
    RecordItem,
)
from pilothouse.rules.rule_case import RuleCase
from pilothouse.rules.state_requests import (
    AskApproval,
    DescribeApproval,
    DiscardApproval,
    Recommend,
    ReportApproach,
    StartAction,
    StateRequest,
    WithdrawApproval,
)

BACKOFF: Final = Backoff(first=60.0, factor=2.0, longest=3600.0)
"""After an action that failed or was declined."""
MOST_ITEMS: Final = 20
STARTING: Final = frozenset({PENDING, IN_PROGRESS})
"""The states in which actions are started and followed: one at a time, since they share a budget."""


class Effect(NamedTuple):
    """What a transition changes in the record besides the state, and asks for."""

    changes: Mapping[str, Any] = {}
    requests: tuple[StateRequest, ...] = ()


class Transition(NamedTuple):
    source: ObjectState | None
    to: ObjectState
    because: str


class StateWait(NamedTuple):
    """Why nothing more happens: a reason in one word, a sentence, and what a person could do."""

    reason: str
    because: str
    remedy: str = ""


class StateOutcome(NamedTuple):
    record: ObjectRecord
    transitions: tuple[Transition, ...]
    requests: tuple[StateRequest, ...]
    waiting: StateWait | None
    wake: float | None
    """In how many seconds to look again, if nothing changes before."""


Condition = Callable[[RuleCase], bool]
Reason = Callable[[RuleCase], str]
Effects = Callable[[RuleCase], Effect]


class Edge(NamedTuple):
    """A transition of the table."""

    source: ObjectState | None
    to: ObjectState
    when: Condition
    because: str | Reason
    effect: Effects = lambda _: Effect()


def _timer(seconds: Callable[[RuleCase], float]) -> Effects:
    return lambda case: Effect({"until": math.ceil(case.now + seconds(case))})


def _hold(case: RuleCase) -> Effect:
    until = math.ceil(case.now + case.rule.spec.conditions.for_)
    return Effect({"until": until, "approval": "", "approaching": True, "candidate": ""})


def _hold_afresh(case: RuleCase) -> Effect:
    return Effect({**_hold(case).changes, "failures": 0})


def _calm(case: RuleCase) -> Effect:
    return Effect({"until": None, "failures": 0, "approval": "", "candidate": ""})


def _calm_after_action(case: RuleCase) -> Effect:
    return Effect({**_calm(case).changes, "approaching": False})


def _calm_and_withdraw(case: RuleCase) -> Effect:
    return Effect(_calm(case).changes, _withdrawal(case))


def _hold_and_withdraw(case: RuleCase) -> Effect:
    return Effect(_hold_afresh(case).changes, _withdrawal(case))


def _withdrawal(case: RuleCase) -> tuple[StateRequest, ...]:
    approval = case.situation.approval
    asked = approval is not None and approval.uid == case.record.approval and approval.state == "pending"
    return (WithdrawApproval(),) if asked else ()


def _trigger(case: RuleCase) -> Effect:
    candidate = case.situation.candidate
    return Effect({"until": None, "triggers": case.next_trigger, "action": "", "candidate": candidate})


def _without_approval(case: RuleCase) -> Effect:
    return Effect({"approval": ""}, _withdrawal(case))


def _ask(case: RuleCase) -> Effect:
    target, changes = case.target, {"approval": "", "candidate": case.situation.candidate}
    return Effect(changes, (AskApproval(target),) if isinstance(target, ActionTarget) else ())


def _describe(case: RuleCase) -> Effect:
    approval, target = case.situation.approval, case.target
    assert approval is not None
    assert isinstance(target, ActionTarget)
    return Effect({"approval": approval.uid}, (DescribeApproval(target),))


def _discard(case: RuleCase) -> Effect:
    return Effect({"approval": ""}, (DiscardApproval(),))


def _start(case: RuleCase) -> Effect:
    name, target = case.name_of(0), case.target
    assert isinstance(target, ActionTarget)
    started = StartAction(name, 0, case.record.triggers, target)
    return Effect({"action": name, "until": None}, (started,))


def _start_next(case: RuleCase) -> Effect:
    number, target = case.action_number + 1, case.next_target
    assert isinstance(target, ActionTarget)
    name = case.name_of(number)
    return Effect({"action": name}, (StartAction(name, number, case.record.triggers, target),))


def _back_off(case: RuleCase) -> Effect:
    failures = case.record.failures + 1
    return Effect({"failures": failures, "until": math.ceil(case.now + BACKOFF.after(failures))})


def _retry(case: RuleCase) -> Effect:
    return Effect({**_back_off(case).changes, "triggers": case.next_trigger, "action": ""})


def _cool_down(case: RuleCase) -> Effect:
    cool_down = case.rule.spec.actions_cool_down_period
    return Effect({"failures": 0, "until": math.ceil(case.now + cool_down)})


def _recommendation(case: RuleCase) -> Effect:
    return Effect({"until": None}, (Recommend(_would_do(case)),))


def _would_do(case: RuleCase) -> str:
    target, name = case.target, case.actions[0].name if case.actions else "anything"
    if isinstance(target, ActionTarget):
        return f"would do {name}" + (f" {target.summary}" if target.fields else "")
    return f"would not do {name}: {target.because}"


def _with_trial(text: str) -> Reason:
    """With the summary of a trial, if the target of the action is that of one."""

    def because(case: RuleCase) -> str:
        trial = case.target.fields.get(TRIAL) if isinstance(case.target, ActionTarget) else None
        return f"{text}: {trial}" if trial else text

    return because


def _outcome_text(case: RuleCase) -> str:
    action = case.action
    if action is None:
        return f"the ApplicationAction {case.record.action} was deleted before it was complete"
    said = f": {action.message}" if action.message else ""
    return f"the ApplicationAction {case.record.action} is {action.phase}{said}"


def _decline_text(case: RuleCase) -> str:
    following = case.next_target if case.record.action else case.target
    if isinstance(following, TargetDeclined) and not case.action_is("Declined"):
        return following.because
    return _outcome_text(case)


TRANSITIONS: Final[tuple[Edge, ...]] = (
    Edge(None, INITIALIZING, lambda case: True, "the rule selects the object"),
    #
    Edge(INITIALIZING, NORMAL, lambda case: case.not_met, "conditions are not met", _calm),
    Edge(INITIALIZING, TRIGGERED, lambda case: case.met, "conditions are met", _hold),
    #
    Edge(NORMAL, TRIGGERED, lambda case: case.met, "conditions are met", _hold),
    Edge(NORMAL, NORMAL, lambda case: case.approaches, "values come near the conditions",
        lambda case: Effect({"approaching": True}, (ReportApproach(),))),
    Edge(NORMAL, NORMAL, lambda case: case.recedes, "values are not near the conditions any more",
        lambda case: Effect({"approaching": False})),
    #
    Edge(TRIGGERED, NORMAL, lambda case: case.not_met, "conditions are not met any more", _calm),
    Edge(TRIGGERED, TRIGGERED, lambda case: case.met and case.must_hold_anew,
        "conditions have to hold anew", _hold),
    Edge(TRIGGERED, TRIGGERED, lambda case: case.held and case.rule.recommends, _would_do, _recommendation),
    Edge(TRIGGERED, AWAITING_APPROVAL, lambda case: case.held and case.needs_approval and case.ready,
        _with_trial("conditions have held, and the rule requires an approval"), _trigger),
    Edge(TRIGGERED, AWAITING_WINDOW,
        lambda case: case.held and not case.needs_approval and case.outside_window,
        "conditions have held outside the rule's windows", _trigger),
    Edge(TRIGGERED, PENDING, lambda case: case.held and not case.needs_approval,
        "conditions have held", _trigger),
    #
    Edge(AWAITING_APPROVAL, NORMAL, lambda case: case.not_met, "conditions are not met any more",
        _calm_and_withdraw),
    Edge(AWAITING_APPROVAL, TRIGGERED, lambda case: case.rule.recommends,
        "the rule only recommends", _hold_and_withdraw),
    Edge(AWAITING_APPROVAL, PENDING, lambda case: not case.needs_approval, "no approval is required any more",
        _without_approval),
    Edge(AWAITING_APPROVAL, AWAITING_APPROVAL, lambda case: case.situation.approval is None and case.ready,
        "an approval is asked for", _ask),
    Edge(AWAITING_APPROVAL, AWAITING_APPROVAL, lambda case: case.approval_is_new and case.ready,
        "an approval was asked for", _describe),
    Edge(AWAITING_APPROVAL, AWAITING_APPROVAL, lambda case: case.approval_is_stale,
        "the approval does not fit what would be done, and is asked for anew", _discard),
    Edge(AWAITING_APPROVAL, DECLINED, lambda case: case.approval_is("declined"), "the approval was declined"),
    Edge(AWAITING_APPROVAL, AWAITING_WINDOW,
        lambda case: case.approval_is("approved") and case.outside_window,
        "approved outside the rule's windows"),
    Edge(AWAITING_APPROVAL, PENDING, lambda case: case.approval_is("approved"), "approved"),
    #
    Edge(AWAITING_WINDOW, NORMAL, lambda case: case.not_met, "conditions are not met any more",
        _calm_and_withdraw),
    Edge(AWAITING_WINDOW, TRIGGERED, lambda case: case.rule.recommends,
        "the rule only recommends", _hold_and_withdraw),
    Edge(AWAITING_WINDOW, PENDING, lambda case: case.met and not case.outside_window, "a window is open"),
    #
    Edge(PENDING, IN_PROGRESS, lambda case: case.action is not None, "the action was started",
        lambda case: Effect({"action": case.name_of(0), "until": None})),
    Edge(PENDING, NORMAL, lambda case: case.not_met, "conditions are not met any more", _calm_and_withdraw),
    Edge(PENDING, TRIGGERED, lambda case: case.rule.recommends,
        "the rule only recommends", _hold_and_withdraw),
    Edge(PENDING, PENDING, lambda case: case.edited and not case.timer_over, "the rule was edited",
        lambda case: Effect({"until": None, "failures": 0})),
    Edge(PENDING, PENDING, lambda case: case.timer_doubtful(BACKOFF.longest), "the clock was set",
        _timer(lambda case: BACKOFF.after(case.record.failures))),
    Edge(PENDING, AWAITING_APPROVAL,
        lambda case: case.needs_approval and case.ready and not case.approval_is("approved"),
        "what was approved has changed"),
    Edge(PENDING, PENDING, lambda case: case.met and case.has_found_candidate, "a candidate holds",
        lambda case: Effect({"candidate": case.situation.candidate})),
    Edge(PENDING, IN_PROGRESS, lambda case: case.may_start and case.ruled_out,
        "the action is considered", lambda case: Effect({"action": "", "until": None})),
    Edge(PENDING, IN_PROGRESS,
        lambda case: case.may_start and case.ready and not case.situation.turn and not case.situation.budget,
        _with_trial("the action is started"), _start),
    #
    Edge(IN_PROGRESS, DECLINED, lambda case: not case.record.action and case.ruled_out,
        _decline_text, _back_off),
    Edge(IN_PROGRESS, PENDING, lambda case: case.action is None, _outcome_text, _retry),
    Edge(IN_PROGRESS, DECLINED,
        lambda case: case.action_is("Succeeded") and case.next_ruled_out,
        _decline_text, _back_off),
    Edge(IN_PROGRESS, IN_PROGRESS,
        lambda case: case.action_is("Succeeded") and case.next_ready and not case.situation.turn
        and not case.situation.budget,
        "the next action is started", _start_next),
    Edge(IN_PROGRESS, TAKEN, lambda case: case.action_is("Succeeded") and case.next_target is None,
        _outcome_text, _cool_down),
    Edge(IN_PROGRESS, DECLINED, lambda case: case.action_is("Declined"), _outcome_text, _back_off),
    Edge(IN_PROGRESS, PENDING, lambda case: case.action_is("Failed", "Canceled"), _outcome_text, _retry),
    #
    Edge(DECLINED, TRIGGERED, lambda case: case.edited, "the rule was edited", _hold_afresh),
    Edge(DECLINED, TRIGGERED,
        lambda case: case.record.until is None and case.approval_is_gone,
        "the declined approval was deleted", _hold_afresh),
    Edge(DECLINED, DECLINED, lambda case: case.timer_doubtful(BACKOFF.longest), "the clock was set",
        _timer(lambda case: BACKOFF.after(case.record.failures))),
    Edge(DECLINED, TRIGGERED,
        lambda case: case.record.until is not None and case.timer_over and (case.met or case.not_met),
        "the back-off is over", _hold),
    #
    Edge(TAKEN, TAKEN, lambda case: case.timer_doubtful(float(case.rule.spec.actions_cool_down_period)),
        "the clock was set", _timer(lambda case: case.rule.spec.actions_cool_down_period)),
    Edge(TAKEN, NORMAL, lambda case: case.timer_over, "the cool-down is over", _calm_after_action),
)  # fmt: skip

_BY_SOURCE: Final = {
    source: tuple(row for row in TRANSITIONS if row.source == source)
    for source in {row.source for row in TRANSITIONS}
}


def advance(case: RuleCase) -> StateOutcome:
    """Take transitions until the world has to answer, time to pass, or a state of ``STARTING`` is reached or
    left."""
    transitions: list[Transition] = []
    requests: list[StateRequest] = []
    starting = case.record.state in STARTING
    while (row := _taken(case)) is not None:
        because = row.because if isinstance(row.because, str) else row.because(case)
        effect = row.effect(case)
        requests.extend(effect.requests)
        moved = row.source != row.to
        if moved:
            transitions.append(Transition(row.source, row.to, because))
        case = msgspec.structs.replace(case, record=_changed(case, row, effect, because))
        if not moved or effect.requests or (case.record.state in STARTING) != starting:
            break
    waiting, wake = _waiting(case)
    return StateOutcome(case.record, tuple(transitions), tuple(requests), waiting, wake)


def _taken(case: RuleCase) -> Edge | None:
    rows = _BY_SOURCE.get(case.record.state, ())
    return next((row for row in rows if row.when(case)), None)


def _changed(case: RuleCase, row: Edge, effect: Effect, because: str) -> ObjectRecord:
    record = msgspec.structs.replace(
        case.record, state=row.to, generation=case.rule.generation, **effect.changes
    )
    if row.source == row.to:
        return record
    by_approval = row.to == AWAITING_APPROVAL or (row.to == DECLINED and record.until is None)
    approval = case.situation.approval_name if by_approval else ""
    items = (*record.items, RecordItem(row.to, case.now, because, approval))
    return msgspec.structs.replace(record, since=case.now, items=items[-MOST_ITEMS:])


def _waiting(case: RuleCase) -> tuple[StateWait | None, float | None]:
    """What the object waits for in its state, and for how long."""
    record, situation = case.record, case.situation
    left = record.until - case.now if record.until is not None and record.until > case.now else None
    match record.state:
        case "Triggered" if situation.blocked and case.timer_over:
            return StateWait("AnotherRule", situation.blocked), None
        case "Triggered" if case.rule.asks_first and isinstance(case.target, TargetNotReady):
            return StateWait("NotReady", case.target.because), left
        case "ActionAwaitingApproval":
            expiry = case.situation.approval.expires_in if case.situation.approval is not None else None
            because = f"ActionApproval {situation.approval_name} has to be approved"
            return StateWait(
                "Approval", because, "set its spec.approvalState to approved or declined"
            ), expiry
        case "ActionAwaitingWindow":
            return StateWait("Window", "the rule's window has to open"), situation.window_opens
        case "ActiveActionsPending":
            return _pending(case, left)
        case "ActionsDeclined" if record.until is None:
            because = f"the declined ActionApproval {situation.approval_name} has to be deleted"
            return StateWait("Declined", because), None
        case "ActionsDeclined":
            declined = record.items[-1].message if record.items else "declined"
            return StateWait("BackOff", f"{declined}; the back-off has to end"), left
        case _:
            return None, left


def _pending(case: RuleCase, left: float | None) -> tuple[StateWait | None, float | None]:
    situation = case.situation
    if not case.met:
        return StateWait("NoData", "there is no present value that meets the conditions"), None
    if not case.timer_over:
        return StateWait("BackOff", f"{case.record.failures} attempts failed"), left
    if situation.blocked:
        return StateWait("AnotherRule", situation.blocked), None
    if case.busy:
        return StateWait("AnotherAction", "another action on the object is under way"), None
    if case.outside_window:
        return StateWait("Window", "the rule's window has to open"), situation.window_opens
    if isinstance(case.target, TargetNotReady):
        return StateWait("NotReady", case.target.because), None
    if situation.turn:
        return StateWait("AnotherObject", situation.turn), None
    if situation.budget:
        return StateWait("BudgetSpent", situation.budget), float(case.rule.spec.poll_interval)
    return None, None
