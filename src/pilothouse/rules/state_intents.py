"""The writes and events that an outcome of the state machine calls for, in order.

    yield from intents_of(ruled, outcome, world, readings)

What is asked for comes first, then the status, then events: see ``object_states`` for what a crash in between
does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from pilothouse.api.kind_names import ActionApproval, ApplicationAction
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.api.openstorage.v1alpha1 import (
    ActionApprovalStatus,
    ActionPreview,
    ApplicationActionSpec,
    ExpectedResult,
    InvolvedObject,
    RuleReference,
)
from pilothouse.base.rfc3339 import format_time
from pilothouse.rules.action_targets import ActionTarget
from pilothouse.rules.candidate_choice import chain_of
from pilothouse.rules.object_records import DECLINED, IN_PROGRESS, PENDING
from pilothouse.rules.object_states import StateOutcome, Transition
from pilothouse.rules.object_types import full_name
from pilothouse.rules.reading_text import series_text, values_text
from pilothouse.rules.readings import Readings
from pilothouse.rules.rule_object_status import new_rule_object, reference, status_of
from pilothouse.rules.ruled_objects import ActedOn, RuledObject
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
from pilothouse.runtime.event_recorder import EventSource
from pilothouse.runtime.intents import (
    Create,
    Delete,
    Intent,
    PatchObject,
    RecordEvent,
    RequeueAfter,
    SetStatus,
    Wait,
)
from pilothouse.runtime.snapshot import Snapshot

COMPONENT: Final = "autopilot"
"""The source of the events about rules."""


def paused(ruled: RuledObject) -> Wait:
    """A wait until the pause is over."""
    remedy = "pilothouse rule resume"
    return Wait("Paused", because=ruled.pause, remedy=remedy, seconds=float(ruled.terms.spec.poll_interval))


def intents_of(
    ruled: RuledObject, outcome: StateOutcome, world: Snapshot, readings: Readings
) -> Iterator[Intent]:
    """What to write. An object without an AutopilotRuleObject gets one first, and its state with the next
    decision."""
    rule_object = ruled.rule_object
    if rule_object is None:
        because = f"rule {ruled.rule.name} selects the {ruled.about} {ruled.subject}"
        yield Create(new_rule_object(ruled.rule, ruled.object), because=because)
        return
    for request in outcome.requests:
        yield from _requested(request, ruled, rule_object, world, readings)
    if outcome.record != ruled.record:
        because = outcome.transitions[-1].because if outcome.transitions else "the state goes on"
        yield SetStatus(rule_object, status_of(outcome.record, ruled.object), because=because)
    for transition in outcome.transitions:
        yield from _events(transition, ruled, rule_object)
    if any(isinstance(request, ReportApproach) for request in outcome.requests):
        message = f"rule: {ruled.rule.name}:{ruled.name} comes near its conditions: "
        yield RecordEvent(
            ruled.rule,
            event="ConditionApproaching",
            because=message + values_text(ruled.terms, ruled.reading.causes),
            source=EventSource(COMPONENT, rule_object.uid),
        )
    if outcome.waiting is not None:
        reason, because, remedy = outcome.waiting
        because = f"rule {ruled.rule.name}: {because}"
        yield Wait(reason, because=because, remedy=remedy, seconds=outcome.wake)
    elif outcome.wake is not None:
        because = f"rule {ruled.rule.name}: the state {outcome.record.state} goes on until then"
        yield RequeueAfter(outcome.wake, because=because)


def _requested(
    request: StateRequest, ruled: RuledObject, rule_object: Object, world: Snapshot, readings: Readings
) -> Iterator[Intent]:
    approval = ruled.approval(world)
    about = f"rule {ruled.rule.name}: {ruled.subject}"
    match request:
        case AskApproval():
            yield Create(_new_approval(ruled, rule_object), because=f"{about} has to be approved")
        case DescribeApproval() if approval is not None:
            acted = ruled.acted_on(world, readings)[0]
            status = _approval_status(ruled, acted, request.target, world.now, approval)
            yield SetStatus(approval, status, because=f"{about} would be {request.target.summary}")
        case WithdrawApproval() if approval is not None:
            fields = {"spec": {"approvalState": "canceled"}}
            yield PatchObject(approval, fields, exact=True, because=f"{about} needs no approval any more")
        case DiscardApproval() if approval is not None:
            yield Delete(approval, because=f"{about} has to be approved anew")
        case StartAction():
            acted = ruled.acted_on(world, readings)[request.number]
            because = f"{about}: {acted.action.name} {request.target.summary}"
            yield Create(_new_action(request, ruled, acted), because=because)
        case Recommend():
            yield RecordEvent(
                ruled.rule,
                event="ActionRecommended",
                because=f"rule: {ruled.rule.name}:{ruled.name} {request.message}",
                source=EventSource(COMPONENT, rule_object.uid),
            )
        case _:
            return


def _events(transition: Transition, ruled: RuledObject, rule_object: Object) -> Iterator[Intent]:
    source = EventSource(COMPONENT, rule_object.uid)
    about = f"{ruled.rule.name}:{ruled.name}"
    message = f"rule: {about} transition from {transition.source or ''} => {transition.to}"
    yield RecordEvent(ruled.rule, event="Transition", because=message, source=source)
    failed = (transition.source, transition.to) == (IN_PROGRESS, PENDING)
    if failed:
        message = f"failed to execute Action for rule {about} in {IN_PROGRESS}: {transition.because}"
        yield RecordEvent(ruled.rule, event="FailedAction", because=message, warning=True, source=source)
    elif transition.to == DECLINED:
        message = f"rule: {about} declined: {transition.because}"
        yield RecordEvent(ruled.rule, event="ActionDeclined", because=message, source=source)


def _new_approval(ruled: RuledObject, rule_object: Object) -> Tree:
    spec = ruled.terms.spec
    tree: Tree = {
        "apiVersion": ActionApproval.api_version,
        "kind": ActionApproval.kind,
        "metadata": {
            "name": ruled.approval_name,
            "namespace": ruled.namespace,
            "labels": dict(rule_object.labels),
            "ownerReferences": [owner_reference(rule_object)],
        },
        "spec": {"approvalState": "pending", "actions": msgspec.to_builtins(ruled.choice.actions)},
    }
    if spec.approval_expires_after:
        tree["spec"]["expiresAfter"] = spec.approval_expires_after
    return tree


def _approval_status(
    ruled: RuledObject, acted: ActedOn, target: ActionTarget, now: float, approval: Object
) -> Tree:
    one, action = acted.object or ruled.object, acted.action
    involved = InvolvedObject(
        name=one.name,
        namespace=one.namespace,
        uid=one.uid,
        kind=one.kind,
        api_version=one.api_version,
    )
    summary = f"{action.name} of {full_name(one)} {target.summary}".rstrip()
    if about := series_text(chain_of(ruled.reading, ruled.choice.name)):
        summary += f", because of {about}"
    status = ActionApprovalStatus(
        rule=RuleReference(name=ruled.rule.name),
        last_process_timestamp=format_time(now),
        action_previews=(
            ActionPreview(
                action=action,
                expected_result=ExpectedResult(message=summary),
                involved_objects=(involved,),
            ),
        ),
        object=reference(one),
        rule_uid=ruled.rule.uid,
        rule_generation=ruled.rule.generation,
        trigger=ruled.record.triggers,
        target=target.fields,
    )
    return {**approval.status, **msgspec.to_builtins(status)}


def _new_action(request: StartAction, ruled: RuledObject, acted: ActedOn) -> Tree:
    action = acted.action
    spec = ApplicationActionSpec(
        rule=ruled.rule.name,
        object=reference(acted.object or ruled.object),
        action=action.name,
        parameters=action.params,
        target=request.target.fields,
        rule_uid=ruled.rule.uid,
        rule_generation=ruled.rule.generation,
        trigger=request.trigger,
        cause=chain_of(ruled.reading, ruled.choice.name),
        approval=ruled.approval_name if ruled.terms.asks_first else "",
    )
    return {
        "apiVersion": ApplicationAction.api_version,
        "kind": ApplicationAction.kind,
        "metadata": {"name": request.name, "namespace": ruled.namespace},
        "spec": msgspec.to_builtins(spec),
    }
