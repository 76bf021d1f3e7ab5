"""The controllers of AutopilotRules: decision functions over one watch of metrics.

    rule_controllers(providers, RuleSettings(recommend_only=True))

* ``rule-objects`` takes each object through its states, up to where an action is called for: claims, and
  ``rule-objects-pods`` and the like those of other kinds.
* ``rule-actions`` starts actions and follows them, one decision at a time: budgets are counted from the
  actions that exist, and no two actions are under way on one object.
* ``rule-verification`` says on each action that succeeded whether it helped.
* ``rule-status`` says on each rule how many objects it has, and why it can't be followed.
* ``questions`` answers what was measured last, which is written nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pilothouse.api.kind_names import (
    ActionApproval,
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    KindName,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Question,
    VolumeAttributesClass,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import CLUSTER_WIDE_RECORDS
from pilothouse.api.openstorage.levels import object_of_rule
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.base.clock import Clock
from pilothouse.base.plurals import counted
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import with_condition
from pilothouse.rules.action_verification import VERIFIED, needs_verification, verification
from pilothouse.rules.object_records import IN_PROGRESS, NORMAL
from pilothouse.rules.object_states import STARTING, advance
from pilothouse.rules.object_types import (
    is_present,
    kinds_of,
    optional_kinds,
    records_of,
    ruled_kinds,
    subject_of,
    type_of_rule,
)
from pilothouse.rules.question_answers import AnsweredQuestions, question_intents
from pilothouse.rules.readings import NoReadings, Readings, RuleFindings
from pilothouse.rules.rule_object_status import OBJECT_LABEL, label_value, rule_object_name
from pilothouse.rules.rule_problems import invalid_because
from pilothouse.rules.rule_providers import RuleProviders
from pilothouse.rules.rule_watch import RuleReadings, RuleWatch
from pilothouse.rules.ruled_objects import RuledObject, RuleSettings, reads, ruled_objects, terms_of
from pilothouse.rules.state_intents import COMPONENT, intents_of, paused
from pilothouse.runtime.controller import Controller, Mapper, Names, controller
from pilothouse.runtime.event_recorder import EventSource
from pilothouse.runtime.intents import Delete, Intent, RecordEvent, RequeueAfter, SetStatus
from pilothouse.runtime.sampled_watch import SampledWatch
from pilothouse.runtime.snapshot import Snapshot

_READY: Final = "Ready"
_MOST_NAMES: Final = 5
_LONGEST: Final = 200
_TALKATIVE: Final = frozenset({Node, Pod})


def rule_controllers(
    providers: RuleProviders,
    settings: RuleSettings = RuleSettings(),
    budget: Callable[[], ActionBudget | None] = lambda: None,
) -> tuple[Controller, ...]:
    """The controllers, which share a watch that asks these providers. ``budget`` is the present one of all
    rules together; what it leaves out is as in the settings."""

    def watch(clock: Clock) -> SampledWatch:
        return RuleWatch(providers, clock, budget)

    answered = AnsweredQuestions()
    kinds, read, optional = ruled_kinds(), reads(), optional_kinds() | {VolumeAttributesClass}

    def rule_objects(kind: KindName) -> Controller:
        @controller(
            kind,
            name=_name_of(kind),
            also={AutopilotRuleObject: _object_of(kind), ActionApproval: _asked_for(kind)},
            reads=(*read, PersistentVolume),
            optional=optional,
            predicate=_matters,
            sampled=watch,
        )
        def decide(one: Object, world: Snapshot) -> Iterator[Intent]:
            """Take an object through its states under each of its rules."""
            yield from _object_intents(one, world, settings)

        return decide

    @controller(
        AutopilotRuleObject,
        also={
            **dict.fromkeys(kinds, _of_object),
            AutopilotRule: _of_rule,
            Namespace: _of_namespace,
            ApplicationAction: _of_action,
        },
        reads=read,
        optional=optional,
        serial=True,
        sampled=watch,
    )
    def rule_actions(rule_object: Object, world: Snapshot) -> Iterator[Intent]:
        """Start and follow the actions of an object under a rule; delete its record once it has no use."""
        yield from _action_intents(rule_object, world, settings)

    @controller(ApplicationAction, reads=read, optional=optional, sampled=watch)
    def rule_verification(action: Object, world: Snapshot) -> Iterator[Intent]:
        """Say on an action that succeeded whether the conditions that called for it are still met."""
        yield from _verification_intents(action, world)

    @controller(AutopilotRule, sampled=watch)
    def rule_status(rule: Object, world: Snapshot) -> Iterator[Intent]:
        """Say on a rule how it is followed."""
        yield from _status_intents(rule, world, settings)

    @controller(Question, reads=read, optional=optional, workers=1, sampled=watch)
    def questions(question: Object, world: Snapshot) -> Iterator[Intent]:
        """Answer a question about the values of objects, and delete it after a minute."""
        yield from question_intents(question, world, _readings(world), settings, answered)

    return *map(rule_objects, kinds), rule_actions, rule_verification, rule_status, questions


def _name_of(kind: KindName) -> str:
    return "rule-objects" if kind == PersistentVolumeClaim else f"rule-objects-{kind.plural}"


def _matters(before: Object, after: Object) -> bool:
    """Whether a decision may depend on the change: nodes and pods report often, and mostly nothing new."""
    if before.noun not in _TALKATIVE:
        return True
    return (before.labels, before.annotations, before.deleting, is_present(before)) != (
        after.labels,
        after.annotations,
        after.deleting,
        is_present(after),
    )


def _readings(world: Snapshot) -> Readings:
    return world.readings if isinstance(world.readings, RuleReadings) else NoReadings()


def _object_intents(one: Object, world: Snapshot, settings: RuleSettings) -> Iterator[Intent]:
    readings = _readings(world)
    every = ruled_objects(one, world, readings, settings)
    for ruled in every:
        if ruled.pause:
            yield paused(ruled)
        elif ruled.record.state not in STARTING:
            yield from _advanced(ruled, every, readings, world, settings)


def _action_intents(rule_object: Object, world: Snapshot, settings: RuleSettings) -> Iterator[Intent]:
    rule = _owner(rule_object, world)
    if rule_object.deleting or rule is None:
        # Without its rule, the garbage collector deletes it.
        return
    if terms_of(rule, settings) is None:
        # It is needed again when the rule is valid again: it has the timers, and the actions that were fired.
        return
    readings, one = _readings(world), _object(rule_object, rule, world)
    if one is None:
        yield Delete(rule_object, because="its object is gone")
        return
    every = ruled_objects(one, world, readings, settings)
    ruled = next((each for each in every if each.rule_object == rule_object), None)
    if ruled is None:
        if rule_object.status.get("state") != IN_PROGRESS or not _under_way(rule_object, world):
            yield Delete(rule_object, exact=True, because=f"rule {rule.name} does not select the object")
    elif readings.crowded and ruled.record.state == NORMAL:
        yield Delete(rule_object, exact=True, because="there are too many to keep those that are Normal")
    elif ruled.record.state not in STARTING:
        return
    elif ruled.pause:
        yield paused(ruled)
    else:
        yield from _advanced(ruled, every, readings, world, settings)


def _advanced(
    ruled: RuledObject, every: list[RuledObject], readings: Readings, world: Snapshot, settings: RuleSettings
) -> Iterator[Intent]:
    case = ruled.case(world, every, readings, settings)
    yield from intents_of(ruled, advance(case), world, readings)


def _verification_intents(action: Object, world: Snapshot) -> Iterator[Intent]:
    if not needs_verification(action):
        return
    rule = world.find(AutopilotRule, "", str(action.spec.get("rule", "")))
    found = verification(action, rule, _fired_for(action, world), _readings(world))
    condition = {
        "type": VERIFIED,
        "status": found.status,
        "reason": found.reason,
        "message": found.message,
    }
    conditions = with_condition(action.status.get("conditions"), condition, now=format_time(world.now))
    if conditions != action.status.get("conditions"):
        yield SetStatus(action, {**action.status, "conditions": conditions}, because=found.message)
    if found.retry is not None:
        yield RequeueAfter(found.retry, because="the next poll may have a sample")


def _status_intents(rule: Object, world: Snapshot, settings: RuleSettings) -> Iterator[Intent]:
    findings = _readings(world).findings(rule)
    if rule.deleting or findings is None:
        return
    reason, message = _condition(rule, findings, settings)
    ready = reason == "Evaluated"
    condition = {
        "type": _READY,
        "status": "True" if ready else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": rule.generation,
    }
    status: Tree = {
        **rule.status,
        "observedGeneration": rule.generation,
        "objects": findings.objects,
        "conditions": with_condition(rule.status.get("conditions"), condition, now=format_time(world.now)),
    }
    yield SetStatus(rule, status, because=message)
    if findings.failure is not None and (rule.condition(_READY) or {}).get("reason") != reason:
        because = f"rule: {rule.name}: {message}"
        source = EventSource(COMPONENT)
        yield RecordEvent(rule, event="RuleCheckFailed", because=because, warning=True, source=source)


def _condition(rule: Object, findings: RuleFindings, settings: RuleSettings) -> tuple[str, str]:
    """The reason and the message of the condition Ready."""
    if findings.failure is not None:
        return findings.failure.reason, findings.failure.message
    terms = terms_of(rule, settings)
    if terms is None:
        return "Invalid", invalid_because(rule)
    if not findings.objects:
        what = "bound claim" if type_of_rule(terms.spec) == "volume" else type_of_rule(terms.spec)
        return "NothingSelected", f"no {what} has the labels and the namespace that the rule selects"
    notes = [f"{counted(findings.objects, 'object')} {'is' if findings.objects == 1 else 'are'} watched"]
    if findings.missing:
        shown = ", ".join(text[:_LONGEST] for text in findings.missing[:_MOST_NAMES])
        notes.append(f"no series has {shown}: check that what exports it is scraped")
    if findings.unmatched:
        notes.append("there are series without a label that names an object")
    if findings.several:
        notes.append("there are objects with several series, of which any one counts")
    if findings.oversized:
        notes.append(f"objects that do not grow, because they are larger than maxsize: {findings.oversized}")
    if findings.others:
        shown = ", ".join(findings.others[:_MOST_NAMES])
        more = " and others" if len(findings.others) > _MOST_NAMES else ""
        notes.append(f"other rules select one of them too, and the heavier acts: {shown}{more}")
    if findings.without_object:
        notes.append("there are too many AutopilotRuleObjects to keep one of each object that is Normal")
    return "Evaluated", "; ".join(notes)


def _owner(rule_object: Object, world: Snapshot) -> Object | None:
    owner = rule_object.controller or {}
    rule = world.find(AutopilotRule, "", str(owner.get("name", "")))
    return rule if rule is not None and rule.uid == owner.get("uid") else None


def _object(rule_object: Object, rule: Object, world: Snapshot) -> Object | None:
    """The object that the AutopilotRuleObject is named after."""
    type_ = object_of_rule(rule.spec)
    for kind in kinds_of(type_):
        if (found := _object_of_kind(rule_object, rule, kind, world)) is not None:
            return found
    return None


def _object_of_kind(rule_object: Object, rule: Object, kind: KindName, world: Snapshot) -> Object | None:
    namespace = rule_object.namespace if kind.namespaced else ""
    suffix, found = f"-{rule.name}", None
    if not kind.namespaced and rule_object.namespace != CLUSTER_WIDE_RECORDS:
        return None
    if rule_object.name.endswith(suffix):
        subject = rule_object.name.removesuffix(suffix)
        if kind == PersistentVolumeClaim:
            claims = world.where(PersistentVolumeClaim, "spec.volumeName", subject)
            return next((one for one in claims if one.namespace == namespace), None)
        found = world.find(kind, namespace, subject.removeprefix(f"{kind.kind.lower()}."))
        return found if found is not None and subject_of(found) == subject else None
    # The name was shortened.
    for one in world.all(kind, namespace):
        if rule_object_name(rule.name, subject_of(one)) == rule_object.name:
            return one
    return None


def _fired_for(action: Object, world: Snapshot) -> Object | None:
    """The object of the rule that fired an action, which may act on another."""
    found = world.where(AutopilotRuleObject, "status.action", action.name)
    rule_object = next((one for one in found if one.namespace == action.namespace), None)
    referred = (rule_object.at("status", "object") if rule_object is not None else None) or action.at(
        "spec", "object", default={}
    )
    for kind in ruled_kinds():
        if (kind.kind, kind.api_version) == (referred.get("kind"), referred.get("apiVersion")):
            one = world.find(kind, str(referred.get("namespace", "")), str(referred.get("name", "")))
            return one if one is not None and one.uid == referred.get("uid") else None
    return None


def _under_way(rule_object: Object, world: Snapshot) -> bool:
    name = str(rule_object.status.get("action", ""))
    action = world.find(ApplicationAction, rule_object.namespace, name)
    return action is not None and action.at("status", "completionTime") is None


def _object_of(kind: KindName) -> Mapper:
    """Maps an AutopilotRuleObject to its object, if that is of this kind."""

    def names(rule_object: Object, world: Snapshot) -> Names:
        referred = rule_object.at("status", "object")
        if referred:
            if referred.get("kind") == kind.kind:
                yield rule_object.namespace if kind.namespaced else "", str(referred.get("name", ""))
            return
        rule = _owner(rule_object, world)
        if rule is not None and kind in kinds_of(object_of_rule(rule.spec)):
            one = _object_of_kind(rule_object, rule, kind, world)
            if one is not None:
                yield one.key

    return names


def _asked_for(kind: KindName) -> Mapper:
    """Maps an ActionApproval to the object of its rule."""
    of_kind = _object_of(kind)

    def names(approval: Object, world: Snapshot) -> Names:
        owner = approval.controller or {}
        rule_object = world.find(AutopilotRuleObject, approval.namespace, str(owner.get("name", "")))
        return of_kind(rule_object, world) if rule_object is not None else ()

    return names


def _of_object(one: Object, world: Snapshot) -> Names:
    if subject := subject_of(one):
        label = f"metadata.labels.{OBJECT_LABEL}"
        for each in world.where(AutopilotRuleObject, label, label_value(subject)):
            if each.namespace == records_of(one):
                yield each.key


def _of_rule(rule: Object, world: Snapshot) -> Names:
    return (one.key for one in world.owned(AutopilotRuleObject, rule))


def _of_namespace(namespace: Object, world: Snapshot) -> Names:
    return (one.key for one in world.all(AutopilotRuleObject, namespace.name))


def _of_action(action: Object, world: Snapshot) -> Names:
    uid = str(action.at("spec", "object", "uid", default=""))
    found = {one.key for one in world.where(AutopilotRuleObject, "status.object.uid", uid)}
    # The rule may be about another object than the one that is acted on.
    found |= {one.key for one in world.where(AutopilotRuleObject, "status.action", action.name)}
    return sorted(found)
