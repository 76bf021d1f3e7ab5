"""``autopilot.libopenstorage.org/v1alpha1``: rules on metrics, what they watch, and the actions they fire."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pilothouse.api.status_fields import Conditions, ObservedGeneration
from pilothouse.meta.object_meta import ApiObject
from pilothouse.meta.schema.struct_schemas import Fields, Int64, Time, doc, field

GROUP = "autopilot.libopenstorage.org"
VERSION = "v1alpha1"
PACKAGE = "org.libopenstorage.autopilot.v1alpha1"

Operator = Literal[
    "Gt", "GtEq", "Lt", "LtEq", "InRange", "NotInRange", "In", "NotIn", "Exists", "DoesNotExist"
]
Enforcement = Literal["", "approvalRequired", "recommend", "required", "preferred"]
ObjectState = Literal[
    "Initializing", "Normal", "Triggered", "ActionAwaitingApproval", "ActionAwaitingWindow",
    "ActiveActionsPending", "ActiveActionsInProgress", "ActiveActionsTaken", "ActionsDeclined",
]  # fmt: skip
Level = Literal["application", "workload", "pod", "volume", "device", "storagepool", "node"]
"""What a metric can be about, from an application down to the machines that it runs on."""
ObjectType = Literal["application", "workload", "pod", "volume", "storagepool", "node"]
"""What a rule can be about."""
Weekday = Literal[
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Mon", "Tue", "Wed",
    "Thu", "Fri", "Sat", "Sun",
]  # fmt: skip


class SelectorRequirement(Fields):
    """One demand on an object's labels."""

    key: Annotated[str, doc("The label.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], doc("How it is compared with the values.")
    ]
    values: Annotated[tuple[str, ...], doc("What it is compared with.")] = ()


class Selector(Fields):
    """Objects chosen by their labels; all demands have to be met, and no demand means every object."""

    match_labels: Annotated[dict[str, str], doc("Labels and the values they must have.")] = field(
        default_factory=dict
    )
    match_expressions: Annotated[tuple[SelectorRequirement, ...], doc("Demands beyond plain equality.")] = ()


class Expression(Fields):
    """One comparison of a metric, made for each object by itself."""

    key: Annotated[str | None, doc("What to look at, in PromQL.")] = None
    key_alias: Annotated[str | None, doc("A name for what to look at, such as VolumeUsagePercent.")] = None
    operator: Annotated[Operator | None, doc("How it is compared with the values.")] = None
    values: Annotated[tuple[str, ...], doc("What it is compared with, as strings.")] = ()
    clear_at: Annotated[
        str | None, doc("Once it holds, it holds until the metric passes this value; a number, as a string.")
    ] = None
    expression: Annotated[
        str | None, doc("A comparison in the provider's own language, in place of key, operator and values.")
    ] = None
    on: Annotated[
        Level | None,
        doc("Whose metric it is: a level above or below the rule's object, such as device; default its own."),
    ] = None
    unquoted_on: Annotated[
        Level | None, doc("The same as on, which kubectl reads as true in YAML unless it is quoted.")
    ] = field(name="true", default=None)

    @property
    def level(self) -> Level | None:
        return self.on or self.unquoted_on


class RuleConditions(Fields):
    """When a rule's actions are called for."""

    expressions: Annotated[tuple[Expression, ...], doc("The comparisons.", min_length=1)]
    for_: Annotated[Int64, doc("For how many seconds they have to hold.", ge=0)] = field(
        name="for", default=30
    )
    required_matches: Annotated[
        Int64, doc("How many of the comparisons have to hold; 0 means all of them.", ge=0)
    ] = 0
    type: Annotated[Literal["monitoring", "metrics"], doc("What kind of conditions they are.")] = "monitoring"
    provider: Annotated[str, doc("Who has the metrics.", min_length=1)] = "prometheus"


class RuleAction(Fields):
    """What is done, and how."""

    name: Annotated[str, doc("The action, such as openstorage.io.action.volume/resize.")]
    params: Annotated[dict[str, str], doc("How it is done; every value is a string.")] = field(
        default_factory=dict
    )


class Candidate(Fields):
    """A cause that is looked for once the conditions hold, and what is done about it."""

    name: Annotated[str, doc("A name for people, such as volume-at-its-limit.", min_length=1)]
    when: Annotated[tuple[Expression, ...], doc("The comparisons, all of which have to hold.", min_length=1)]
    actions: Annotated[tuple[RuleAction, ...], doc("What is done, one after the other.", min_length=1)]


class Window(Fields):
    """A part of the day."""

    start_time: Annotated[str, doc('When it opens, as "HH:MM" or "hh:mmPM".')]
    end_time: Annotated[str, doc("When it closes; before the start means on the next day.")]
    name: Annotated[str, doc("A name for people.")] = ""
    days_of_week: Annotated[
        tuple[Weekday, ...], doc("The days on which it opens; none means every day.", list_type="set")
    ] = ()


class ActionWindow(Fields):
    """When actions may start."""

    windows: Annotated[tuple[Window, ...], doc("Parts of the week, any of which will do.", min_length=1)]
    enabled: Annotated[bool, doc("Whether the windows count.")] = True
    timezone: Annotated[str, doc("The time zone of the windows, such as Europe/Zurich.")] = "UTC"


class ActionBudget(Fields):
    """How much may be done; counted from ApplicationActions."""

    actions_per_hour: Annotated[Int64 | None, doc("How many actions may start within an hour.", ge=0)] = None
    per_object_per_day: Annotated[
        Int64 | None, doc("How many actions may start on one object within 24 hours.", ge=0)
    ] = None
    growth_per_day: Annotated[
        str | None, doc("By how much volumes may grow in all within 24 hours, as a quantity such as 1Ti.")
    ] = None
    concurrent: Annotated[Int64 | None, doc("How many actions may run at once.", ge=1)] = None


class AutopilotRuleSpec(Fields):
    """What is watched, when to act, and what to do."""

    conditions: Annotated[RuleConditions, doc("When the actions are called for.")]
    actions: Annotated[
        tuple[RuleAction, ...], doc("What is done, one after the other; absent if there are candidates.")
    ] = ()
    object: Annotated[
        ObjectType | None,
        doc("What the rule is about; default the type of object in the name of its first action."),
    ] = None
    candidates: Annotated[
        tuple[Candidate, ...],
        doc(
            "Causes, in order: once the conditions hold, the actions of the first that holds are done, and "
            "nothing if none does.",
            map_keys=("name",),
        ),
    ] = ()
    weight: Annotated[Int64, doc("Which of two rules for one object goes first: the heavier.")] = 0
    poll_interval: Annotated[Int64, doc("How often the conditions are looked at, in seconds.", ge=1)] = 60
    enforcement: Annotated[
        Enforcement,
        doc("approvalRequired asks a person first, recommend only records what would be done; else acts."),
    ] = ""
    selector: Annotated[Selector | None, doc("The objects, of the kind that the actions are for.")] = None
    namespace_selector: Annotated[Selector | None, doc("The namespaces that the objects are in.")] = None
    actions_cool_down_period: Annotated[
        Int64, doc("For how many seconds after an action nothing is done to the same object.", ge=0)
    ] = 300
    action_window: Annotated[ActionWindow | None, doc("When actions may start; absent means always.")] = None
    budget: Annotated[ActionBudget | None, doc("How much the rule may do; absent means the defaults.")] = None
    approval_expires_after: Annotated[
        Int64,
        doc("After how many seconds an ActionApproval expires and is asked for anew; 0 is never.", ge=0),
    ] = 86400


class AutopilotRuleStatus(Fields):
    """Whether the rule can be followed."""

    observed_generation: ObservedGeneration = None
    objects: Annotated[Int64 | None, doc("How many objects it watches.")] = None
    conditions: Conditions = ()


class AutopilotRule(ApiObject, kw_only=True):
    """Acts on volumes and applications when their metrics call for it."""

    spec: Annotated[AutopilotRuleSpec, doc("What is watched, when to act, and what to do.")]
    status: Annotated[AutopilotRuleStatus | None, doc("Whether the rule can be followed.")] = None


class RuleObjectItem(Fields):
    """One thing that happened to an object under a rule."""

    state: Annotated[ObjectState, doc("The state that it came to.")]
    last_process_timestamp: Annotated[Time | None, doc("When it came to it.")] = None
    message: Annotated[str, doc("Why.")] = ""
    action_approval_name: Annotated[str, doc("The ActionApproval that it waits for or was declined by.")] = ""


class ObjectReference(Fields):
    """An object; its uid distinguishes it from later ones of the same name."""

    kind: Annotated[str, doc("Its kind.", min_length=1)]
    name: Annotated[str, doc("Its name.", min_length=1)]
    api_version: Annotated[str, doc("Its API group and version.")] = ""
    namespace: Annotated[str, doc("Its namespace.")] = ""
    uid: Annotated[str, doc("Its uid.")] = ""


class AutopilotRuleObjectStatus(Fields):
    """What happened lately."""

    items: Annotated[
        tuple[RuleObjectItem, ...], doc("What happened, the newest last.", list_type="atomic", max_length=20)
    ] = ()
    state: Annotated[ObjectState | None, doc("The state that it is in.")] = None
    object: Annotated[ObjectReference | None, doc("The object.")] = None
    rule_generation: Annotated[Int64 | None, doc("The generation of the rule that the state is of.")] = None
    since: Annotated[Time | None, doc("When it came to the state.")] = None
    until: Annotated[
        Time | None, doc("When the state ends by itself: the hold, the cool-down or the back-off.")
    ] = None
    triggers: Annotated[Int64, doc("How often an action was called for; the number of the last.", ge=0)] = 0
    failures: Annotated[Int64, doc("How often in a row it failed or was declined.", ge=0)] = 0
    action: Annotated[str, doc("The ApplicationAction of the last trigger.")] = ""
    approval: Annotated[str, doc("The uid of the ActionApproval that was asked for.")] = ""
    candidate: Annotated[str, doc("The candidate that was chosen by the last trigger.")] = ""
    approaching: Annotated[
        bool, doc("Values are near the conditions or have met them, which was reported once.")
    ] = False


class AutopilotRuleObject(ApiObject, kw_only=True):
    """One object under one rule, and what happened to it."""

    status: Annotated[AutopilotRuleObjectStatus | None, doc("What happened lately.")] = None


class ActionApprovalSpec(Fields):
    """Whether the actions may be done."""

    approval_state: Annotated[
        Literal["pending", "approved", "declined", "canceled"], doc("What a person decided.")
    ] = "pending"
    actions: Annotated[tuple[RuleAction, ...], doc("What would be done.")] = ()
    expires_after: Annotated[
        Int64 | None,
        doc("After how many seconds it expires and is asked for anew; 0 or absent is never.", ge=0),
    ] = None


class RuleReference(Fields):
    """The rule that asks."""

    namespace: Annotated[str, doc("Its namespace; rules are cluster-wide, so there is none.")] = field(
        name="Namespace", default=""
    )
    name: Annotated[str, doc("Its name.")] = field(name="Name", default="")


class ExpectedResult(Fields):
    """What an action would do."""

    message: Annotated[str, doc("What it would do, in a sentence.")] = field(name="Message", default="")


class InvolvedObject(Fields):
    """An object that an action would touch."""

    name: Annotated[str, doc("Its name.")] = ""
    namespace: Annotated[str, doc("Its namespace.")] = ""
    uid: Annotated[str, doc("Its uid.")] = ""
    kind: Annotated[str, doc("Its kind.")] = ""
    api_version: Annotated[str, doc("Its API group and version.")] = ""
    cluster_name: Annotated[str, doc("The cluster it is in.")] = ""
    owner_references: Annotated[tuple[dict[str, Any], ...], doc("Its owners.")] = ()


class ActionPreview(Fields):
    """What an action would do, and to what."""

    action: Annotated[RuleAction | None, doc("The action.")] = None
    expected_result: Annotated[ExpectedResult | None, doc("What it would do.")] = None
    involved_objects: Annotated[tuple[InvolvedObject, ...], doc("What it would touch.")] = ()


class ActionApprovalStatus(Fields):
    """Who asks, and for what."""

    rule: Annotated[RuleReference | None, doc("The rule that asks.")] = field(name="Rule", default=None)
    last_process_timestamp: Annotated[Time | None, doc("When it was last looked at.")] = None
    action_previews: Annotated[tuple[ActionPreview, ...], doc("What would be done.")] = ()
    object: Annotated[ObjectReference | None, doc("The object that it is asked for.")] = None
    rule_uid: Annotated[str, doc("The uid of the rule that asks.")] = ""
    rule_generation: Annotated[Int64 | None, doc("The generation of the rule that asks.")] = None
    trigger: Annotated[Int64 | None, doc("The number of the trigger on that object.")] = None
    target: Annotated[dict[str, str], doc("What exactly would be brought about, such as to: 480Mi.")] = field(
        default_factory=dict
    )
    decided_by: Annotated[str, doc("The user who approved or declined; written by the API server.")] = ""
    decided_at: Annotated[Time | None, doc("When; written by the API server.")] = None


class ActionApproval(ApiObject, kw_only=True):
    """A question to a person: may these actions be done to this object?"""

    spec: Annotated[ActionApprovalSpec, doc("Whether the actions may be done.")]
    status: Annotated[ActionApprovalStatus | None, doc("Who asks, and for what.")] = None


class Policy(Fields):
    """One ready-made rule of an application's module."""

    name: Annotated[str, doc("Its name in the module.", min_length=1)]
    parameters: Annotated[dict[str, str], doc("Its thresholds and limits, where they differ.")] = field(
        default_factory=dict
    )
    enforcement: Annotated[
        Enforcement,
        doc("approvalRequired asks a person first, recommend only records what would be done; else acts."),
    ] = ""


class ApplicationPolicySpec(Fields):
    """Which rules are wanted for which application."""

    application: Annotated[str, doc("The module, such as postgres or elasticsearch.")]
    policies: Annotated[
        tuple[Policy, ...], doc("The ready-made rules to follow.", map_keys=("name",), min_length=1)
    ]
    selector: Annotated[Selector | None, doc("The objects that belong to the application.")] = None
    namespace_selector: Annotated[Selector | None, doc("The namespaces that it runs in.")] = None


class ExpandedRule(Fields):
    """A rule that was made for a policy."""

    policy: Annotated[str, doc("The policy.")]
    name: Annotated[str, doc("The AutopilotRule.")]


class ApplicationPolicyStatus(Fields):
    """What was made of the policies."""

    observed_generation: ObservedGeneration = None
    rules: Annotated[tuple[ExpandedRule, ...], doc("The rules that were made.", map_keys=("policy",))] = ()
    rule_count: Annotated[Int64 | None, doc("How many they are.")] = None
    conditions: Conditions = ()


class ApplicationPolicy(ApiObject, kw_only=True):
    """The ready-made rules of an application's module, expanded into AutopilotRules."""

    spec: Annotated[ApplicationPolicySpec, doc("Which rules are wanted for which application.")]
    status: Annotated[ApplicationPolicyStatus | None, doc("What was made of them.")] = None


class Cause(Fields):
    """A comparison that was made, and the value that it was made with."""

    expression: Annotated[str, doc("What was looked at.")]
    value: Annotated[str, doc("What it was.")] = ""
    time: Annotated[Time | None, doc("When.")] = None
    operator: Annotated[Operator | None, doc("How it was compared.")] = None
    threshold: Annotated[tuple[str, ...], doc("What it was compared with.", list_type="atomic")] = ()
    level: Annotated[Level | None, doc("What the metric is about.")] = None
    object: Annotated[str, doc("Which object of that level, as namespace/name or name.")] = ""
    candidate: Annotated[str, doc("The candidate that it belongs to; empty for the rule's conditions.")] = ""
    series: Annotated[
        dict[str, str],
        doc("What else the series says that it is about, such as slot_name: standby."),
    ] = field(default_factory=dict)
    held: Annotated[bool | None, doc("Whether it held; absent if there was no value.")] = None


class ApplicationActionSpec(Fields):
    """What is to be done to what, and why. It can't be changed."""

    rule: Annotated[str, doc("The AutopilotRule that fired.", min_length=1)]
    object: Annotated[ObjectReference, doc("The object to act on.")]
    action: Annotated[str, doc("The action, such as openstorage.io.action.volume/resize.")]
    parameters: Annotated[dict[str, str], doc("How it is done.")] = field(default_factory=dict)
    target: Annotated[dict[str, str], doc("What exactly is to be brought about, such as to: 480Mi.")] = field(
        default_factory=dict
    )
    rule_uid: Annotated[str, doc("The uid of the rule.")] = ""
    rule_generation: Annotated[Int64 | None, doc("The generation of the rule that fired.")] = None
    trigger: Annotated[Int64 | None, doc("The number of the trigger on that object.")] = None
    cause: Annotated[tuple[Cause, ...], doc("The values that called for it.", list_type="atomic")] = ()
    approval: Annotated[str, doc("The ActionApproval that allowed it, if one was asked for.")] = ""


class ApplicationActionStatus(Fields):
    """How it went."""

    phase: Annotated[
        Literal["Pending", "Running", "Succeeded", "Failed", "Declined", "Canceled"] | None,
        doc("How far it is."),
    ] = None
    before: Annotated[dict[str, str], doc("What the object was like before, such as its size.")] = field(
        default_factory=dict
    )
    after: Annotated[dict[str, str], doc("What the object is like after it.")] = field(default_factory=dict)
    start_time: Annotated[Time | None, doc("When it began.")] = None
    completion_time: Annotated[Time | None, doc("When it was over.")] = None
    attempts: Annotated[Int64 | None, doc("How often it was tried.")] = None
    progress: Annotated[
        dict[str, str], doc("How far an action of several steps is, such as which volume it moves.")
    ] = field(default_factory=dict)
    conditions: Conditions = ()


class ApplicationAction(ApiObject, kw_only=True):
    """A fired action: executors react to it and record in it how it went."""

    spec: Annotated[ApplicationActionSpec, doc("What is to be done to what, and why.")]
    status: Annotated[ApplicationActionStatus | None, doc("How it went.")] = None
