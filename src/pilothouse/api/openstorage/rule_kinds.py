"""The kinds of the group ``autopilot.libopenstorage.org``.

Rules and policies are cluster-wide, since they select namespaces; what happens to an object is in its namespace.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.openstorage import v1alpha1
from pilothouse.api.openstorage.rule_validation import (
    check_application_action,
    check_application_policy,
    check_approval,
    check_rule,
)
from pilothouse.meta.kind import Column, Kind, Resource
from pilothouse.meta.schema.struct_schemas import schema_of

_CATEGORIES: Final = ("all", "pilothouse")
_AGE: Final = Column(
    name="Age", type="date", path=".metadata.creationTimestamp", description="Time since it was created."
)

RULE: Final = Kind(
    group=v1alpha1.GROUP,
    version=v1alpha1.VERSION,
    name="AutopilotRule",
    plural="autopilotrules",
    short_names=("ar",),
    categories=_CATEGORIES,
    namespaced=False,
    schema=schema_of(v1alpha1.AutopilotRule, v1alpha1.PACKAGE),
    status=True,
    columns=(
        Column(name="Action", path=".spec.actions[0].name", description="What it does."),
        Column(name="Enforcement", path=".spec.enforcement", description="Whether a person is asked first."),
        Column(name="Objects", type="integer", path=".status.objects", description="How many it watches."),
        _AGE,
        Column(name="Weight", type="integer", path=".spec.weight", description="Its precedence.", priority=1),
        Column(
            name="Poll",
            type="integer",
            path=".spec.pollInterval",
            description="Seconds between two looks.",
            priority=1,
        ),
    ),
    selectable={"spec.enforcement": ".spec.enforcement"},
    validate=check_rule,
    unattended="no controller evaluates AutopilotRules yet: it is stored, but nothing is measured or done",
)
RULE_OBJECT: Final = Kind(
    group=v1alpha1.GROUP,
    version=v1alpha1.VERSION,
    name="AutopilotRuleObject",
    plural="autopilotruleobjects",
    short_names=("aro",),
    categories=_CATEGORIES,
    schema=schema_of(v1alpha1.AutopilotRuleObject, v1alpha1.PACKAGE),
    status=True,
    columns=(
        Column(name="Rule", path=".metadata.labels.rule", description="The rule."),
        Column(name="Object", path=".metadata.labels.object", description="The object."),
        Column(name="State", path=".status.state", description="The state it is in."),
        _AGE,
    ),
    selectable={"status.state": ".status.state"},
    unattended="no controller acts on AutopilotRuleObjects yet: it is stored, but has no effect",
)
APPROVAL: Final = Kind(
    group=v1alpha1.GROUP,
    version=v1alpha1.VERSION,
    name="ActionApproval",
    plural="actionapprovals",
    categories=_CATEGORIES,
    schema=schema_of(v1alpha1.ActionApproval, v1alpha1.PACKAGE),
    status=True,
    columns=(
        Column(name="Approval-State", path=".spec.approvalState", description="What a person decided."),
        Column(name="Rule", path=".status.Rule.Name", description="The rule that asks."),
        _AGE,
        Column(
            name="Expected",
            path=".status.actionPreviews[0].expectedResult.Message",
            description="What would be done.",
            priority=1,
        ),
    ),
    selectable={"spec.approvalState": ".spec.approvalState"},
    validate=check_approval,
    unattended="no controller acts on ActionApprovals yet: it is stored, but has no effect",
)
APPLICATION_POLICY: Final = Kind(
    group=v1alpha1.GROUP,
    version=v1alpha1.VERSION,
    name="ApplicationPolicy",
    plural="applicationpolicies",
    short_names=("ap",),
    categories=_CATEGORIES,
    namespaced=False,
    schema=schema_of(v1alpha1.ApplicationPolicy, v1alpha1.PACKAGE),
    status=True,
    columns=(
        Column(name="Application", path=".spec.application", description="The module it is of."),
        Column(
            name="Ready",
            path='.status.conditions[?(@.type=="Ready")].status',
            description="Whether its rules are made.",
        ),
        _AGE,
        Column(
            name="Message",
            path='.status.conditions[?(@.type=="Ready")].message',
            description="Why its rules are not made.",
            priority=1,
        ),
    ),
    selectable={"spec.application": ".spec.application"},
    validate=check_application_policy,
    unattended="no controller expands ApplicationPolicies yet: it is stored, but no AutopilotRule is created",
)
APPLICATION_ACTION: Final = Kind(
    group=v1alpha1.GROUP,
    version=v1alpha1.VERSION,
    name="ApplicationAction",
    plural="applicationactions",
    short_names=("aa",),
    categories=_CATEGORIES,
    schema=schema_of(v1alpha1.ApplicationAction, v1alpha1.PACKAGE),
    status=True,
    columns=(
        Column(name="Rule", path=".spec.rule", description="The rule that fired."),
        Column(name="Object", path=".spec.object.name", description="The object it acts on."),
        Column(name="Action", path=".spec.action", description="What is done."),
        Column(name="Phase", path=".status.phase", description="How far it is."),
        _AGE,
        Column(
            name="Started", type="date", path=".status.startTime", description="When it began.", priority=1
        ),
        Column(
            name="Completed",
            type="date",
            path=".status.completionTime",
            description="When it was over.",
            priority=1,
        ),
    ),
    selectable={"spec.rule": ".spec.rule", "status.phase": ".status.phase"},
    validate=check_application_action,
    unattended="no controller carries out ApplicationActions yet: it is stored, but nothing is done",
)


def resources() -> tuple[Resource, ...]:
    """Rules, what they watch, what they ask, ready-made rules and fired actions."""
    kinds = (RULE, RULE_OBJECT, APPROVAL, APPLICATION_POLICY, APPLICATION_ACTION)
    return tuple(Resource(kinds=(kind,), storage=v1alpha1.VERSION) for kind in kinds)
