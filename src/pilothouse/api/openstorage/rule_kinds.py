"""The kinds of the group ``autopilot.libopenstorage.org``.

Rules and policies select namespaces and so are cluster-wide; what is about one object is in its namespace.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.openstorage import v1alpha1
from pilothouse.api.openstorage.rule_validation import (
    check_application_action,
    check_application_policy,
    check_approval,
    check_rule,
    default_rule,
)
from pilothouse.api.own_kinds import AGE, GroupVersion, condition_column, path_column
from pilothouse.meta.kind import Resource, single

_V1ALPHA1: Final = GroupVersion(v1alpha1.GROUP, v1alpha1.VERSION, v1alpha1.PACKAGE)
_IN_QUOTES: Final = 'numbers are in quotes here, as in "50"'

RULE: Final = _V1ALPHA1.kind(
    v1alpha1.AutopilotRule,
    short_names=("ar",),
    namespaced=False,
    columns=(
        path_column("Action", ".spec..actions[0].name", "What it, or its first candidate, does."),
        path_column("Enforcement", ".spec.enforcement", "Whether a person is asked first."),
        path_column("Objects", ".status.objects", "How many it watches.", type="integer"),
        condition_column("Ready", "Ready", "Whether it is followed."),
        AGE,
        path_column("Weight", ".spec.weight", "Its precedence.", type="integer", wide=True),
        path_column("Poll", ".spec.pollInterval", "Seconds between two looks.", type="integer", wide=True),
        condition_column("Message", "Ready", "Why it is not followed.", field="message", wide=True),
    ),
    selectable={"spec.enforcement": ".spec.enforcement"},
    default=default_rule,
    validate=check_rule,
    hints={
        "spec.conditions": "the comparisons belong in a list of their own: "
        'conditions: {expressions: [{key: ..., operator: Gt, values: ["50"]}]}',
        "spec.conditions.expressions[].values[]": _IN_QUOTES,
        "spec.actions[].params.*": _IN_QUOTES,
        "spec.candidates[].when[].values[]": _IN_QUOTES,
        "spec.candidates[].actions[].params.*": _IN_QUOTES,
    },
)
RULE_OBJECT: Final = _V1ALPHA1.kind(
    v1alpha1.AutopilotRuleObject,
    short_names=("aro",),
    columns=(
        path_column("Rule", ".metadata.labels.rule", "The rule."),
        path_column("Object", ".metadata.labels.object", "The object."),
        path_column("State", ".status.state", "The state it is in."),
        path_column("Since", ".status.since", "How long it has been in the state.", type="date"),
        AGE,
        path_column("Until", ".status.until", "When the state ends by itself.", wide=True),
        path_column("Action", ".status.action", "The action of the last trigger.", wide=True),
    ),
    selectable={"status.state": ".status.state"},
)
APPROVAL: Final = _V1ALPHA1.kind(
    v1alpha1.ActionApproval,
    columns=(
        path_column("Approval-State", ".spec.approvalState", "What a person decided."),
        path_column("Rule", ".status.Rule.Name", "The rule that asks."),
        path_column("Object", ".status.object.name", "The object that it is asked for."),
        path_column("To", ".status.target.to", "What it would be changed to."),
        path_column("Decided-By", ".status.decidedBy", "Who approved or declined."),
        AGE,
        path_column(
            "Expected", ".status.actionPreviews[0].expectedResult.Message", "What would be done.", wide=True
        ),
    ),
    selectable={"spec.approvalState": ".spec.approvalState"},
    validate=check_approval,
)
APPLICATION_POLICY: Final = _V1ALPHA1.kind(
    v1alpha1.ApplicationPolicy,
    plural="applicationpolicies",
    short_names=("ap",),
    namespaced=False,
    columns=(
        path_column("Application", ".spec.application", "The module it is of."),
        path_column("Rules", ".status.ruleCount", "How many rules were made.", type="integer"),
        condition_column("Ready", "Ready", "Whether its rules are made."),
        AGE,
        condition_column("Message", "Ready", "Why its rules are not made.", field="message", wide=True),
    ),
    selectable={"spec.application": ".spec.application"},
    validate=check_application_policy,
    hints={"spec.policies[].parameters.*": _IN_QUOTES},
)
APPLICATION_ACTION: Final = _V1ALPHA1.kind(
    v1alpha1.ApplicationAction,
    short_names=("aa",),
    columns=(
        path_column("Rule", ".spec.rule", "The rule that fired."),
        path_column("Object", ".spec.object.name", "The object it acts on."),
        path_column("Action", ".spec.action", "What is done."),
        path_column("From", ".spec.target.from", "What it is to be changed from."),
        path_column("To", ".spec.target.to", "What it is to be changed to."),
        path_column("Phase", ".status.phase", "How far it is."),
        condition_column("Verified", "Verified", "Whether it helped, by the rule's metrics."),
        AGE,
        path_column("Started", ".status.startTime", "When it began.", type="date", wide=True),
        path_column("Completed", ".status.completionTime", "When it was over.", type="date", wide=True),
        condition_column("Message", "Complete", "How it went.", field="message", wide=True),
    ),
    selectable={"spec.rule": ".spec.rule", "status.phase": ".status.phase"},
    validate=check_application_action,
)


def resources() -> tuple[Resource, ...]:
    return tuple(map(single, (RULE, RULE_OBJECT, APPROVAL, APPLICATION_POLICY, APPLICATION_ACTION)))
