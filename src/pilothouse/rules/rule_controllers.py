"""The controllers of AutopilotRules: four decision functions over one watch of metrics.

    rule_controllers(providers, RuleSettings(recommend_only=True))

* ``rule-objects`` takes each claim through its states, up to where an action is called for.
* ``rule-actions`` starts actions and follows them, one decision at a time: budgets are counted from the
  actions that exist, and no two actions are under way on one object.
* ``rule-verification`` says on each action that succeeded whether it helped.
* ``rule-status`` says on each rule how many objects it has, and why it can't be followed.
* ``questions`` answers what was measured last, which is written nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import (
    ActionApproval,
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    Question,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import condition_is, with_condition
from pilothouse.rules.action_verification import VERIFIED, needs_verification, verification
from pilothouse.rules.object_records import IN_PROGRESS, NORMAL
from pilothouse.rules.object_states import STARTING, advance
from pilothouse.rules.question_answers import question_intents
from pilothouse.rules.readings import NoReadings, Readings, RuleFindings
from pilothouse.rules.rule_object_status import OBJECT_LABEL, label_value, rule_object_name
from pilothouse.rules.rule_providers import RuleProviders
from pilothouse.rules.rule_watch import RuleReadings, RuleWatch
from pilothouse.rules.ruled_objects import READS, RuledObject, RuleSettings, ruled_objects, terms_of
from pilothouse.rules.state_intents import COMPONENT, intents_of, paused
from pilothouse.runtime.controller import Controller, Names, controller
from pilothouse.runtime.event_recorder import EventSource
from pilothouse.runtime.intents import Delete, Intent, RecordEvent, RequeueAfter, SetStatus
from pilothouse.runtime.sampled_watch import SampledWatch
from pilothouse.runtime.snapshot import Snapshot

_READY: Final = "Ready"
_MOST_NAMES: Final = 5


def rule_controllers(
    providers: RuleProviders, settings: RuleSettings = RuleSettings()
) -> tuple[Controller, ...]:
    """The controllers, which share a watch that asks these providers."""

    def watch(clock: Clock) -> SampledWatch:
        return RuleWatch(providers, clock)

    @controller(
        PersistentVolumeClaim,
        also={AutopilotRuleObject: _claim_of, ActionApproval: _asked_for},
        reads=(*READS, Pod),
        sampled=watch,
    )
    def rule_objects(claim: Object, world: Snapshot) -> Iterator[Intent]:
        """Take a claim through its states under each of its rules."""
        yield from _claim_intents(claim, world, settings)

    @controller(
        AutopilotRuleObject,
        also={
            PersistentVolumeClaim: _of_claim,
            AutopilotRule: _of_rule,
            Namespace: _of_namespace,
            ApplicationAction: _of_action,
        },
        reads=READS,
        serial=True,
        sampled=watch,
    )
    def rule_actions(rule_object: Object, world: Snapshot) -> Iterator[Intent]:
        """Start and follow the actions of an object under a rule; delete its record once it has no use."""
        yield from _action_intents(rule_object, world, settings)

    @controller(ApplicationAction, reads=(AutopilotRule, PersistentVolumeClaim), sampled=watch)
    def rule_verification(action: Object, world: Snapshot) -> Iterator[Intent]:
        """Say on an action that succeeded whether the conditions that called for it are still met."""
        yield from _verification_intents(action, world)

    @controller(AutopilotRule, sampled=watch)
    def rule_status(rule: Object, world: Snapshot) -> Iterator[Intent]:
        """Say on a rule how it is followed."""
        yield from _status_intents(rule, world, settings)

    @controller(Question, reads=READS, workers=1, sampled=watch)
    def questions(question: Object, world: Snapshot) -> Iterator[Intent]:
        """Answer a question about the values of objects, and delete it after a minute."""
        yield from question_intents(question, world, _readings(world), settings)

    return rule_objects, rule_actions, rule_verification, rule_status, questions


def _readings(world: Snapshot) -> Readings:
    return world.readings if isinstance(world.readings, RuleReadings) else NoReadings()


def _claim_intents(claim: Object, world: Snapshot, settings: RuleSettings) -> Iterator[Intent]:
    readings = _readings(world)
    every = ruled_objects(claim, world, readings, settings)
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
    readings, claim = _readings(world), _claim(rule_object, rule, world)
    if claim is None:
        yield Delete(rule_object, because="its volume has no claim any more")
        return
    every = ruled_objects(claim, world, readings, settings)
    ruled = next((one for one in every if one.rule_object == rule_object), None)
    if ruled is None:
        if rule_object.status.get("state") != IN_PROGRESS or not _under_way(rule_object, world):
            yield Delete(rule_object, exact=True, because=f"rule {rule.name} does not select the claim")
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
    case = ruled.case(world, every, readings.ahead, settings)
    yield from intents_of(ruled, advance(case), world)


def _verification_intents(action: Object, world: Snapshot) -> Iterator[Intent]:
    if not needs_verification(action):
        return
    rule = world.find(AutopilotRule, "", str(action.spec.get("rule", "")))
    name = str(action.at("spec", "object", "name", default=""))
    claim = world.find(PersistentVolumeClaim, action.namespace, name)
    found = verification(action, rule, claim, _readings(world))
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
    if findings.failure is not None and not condition_is(rule.status.get("conditions"), _READY, "False"):
        because = f"rule: {rule.name}: {message}"
        source = EventSource(COMPONENT)
        yield RecordEvent(rule, event="RuleCheckFailed", because=because, warning=True, source=source)


def _condition(rule: Object, findings: RuleFindings, settings: RuleSettings) -> tuple[str, str]:
    """The reason and the message of the condition Ready."""
    if terms_of(rule, settings) is None:
        return "Invalid", "the rule is not valid"
    if findings.failure is not None:
        return findings.failure.reason, findings.failure.message
    if not findings.objects:
        return "NothingSelected", "no bound claim has the labels and the namespace that the rule selects"
    notes = [f"{findings.objects} objects are watched"]
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


def _claim(rule_object: Object, rule: Object, world: Snapshot) -> Object | None:
    """The claim of the volume that the AutopilotRuleObject is named after."""
    suffix = f"-{rule.name}"
    if rule_object.name.endswith(suffix):
        volume = rule_object.name.removesuffix(suffix)
        found = world.where(PersistentVolumeClaim, "spec.volumeName", volume)
        return next((one for one in found if one.namespace == rule_object.namespace), None)
    # The name was shortened.
    for claim in world.all(PersistentVolumeClaim, rule_object.namespace):
        if rule_object_name(rule.name, str(claim.spec.get("volumeName", ""))) == rule_object.name:
            return claim
    return None


def _under_way(rule_object: Object, world: Snapshot) -> bool:
    name = str(rule_object.status.get("action", ""))
    action = world.find(ApplicationAction, rule_object.namespace, name)
    return action is not None and action.at("status", "completionTime") is None


def _claim_of(rule_object: Object, world: Snapshot) -> Names:
    if name := rule_object.at("status", "object", "name"):
        yield rule_object.namespace, str(name)
        return
    rule = _owner(rule_object, world)
    claim = _claim(rule_object, rule, world) if rule is not None else None
    if claim is not None:
        yield claim.key


def _asked_for(approval: Object, world: Snapshot) -> Names:
    """The claim that an ActionApproval is about."""
    owner = approval.controller or {}
    rule_object = world.find(AutopilotRuleObject, approval.namespace, str(owner.get("name", "")))
    return _claim_of(rule_object, world) if rule_object is not None else ()


def _of_claim(claim: Object, world: Snapshot) -> Names:
    if volume := claim.spec.get("volumeName"):
        label = f"metadata.labels.{OBJECT_LABEL}"
        for one in world.where(AutopilotRuleObject, label, label_value(str(volume))):
            yield one.key


def _of_rule(rule: Object, world: Snapshot) -> Names:
    return (one.key for one in world.owned(AutopilotRuleObject, rule))


def _of_namespace(namespace: Object, world: Snapshot) -> Names:
    return (one.key for one in world.all(AutopilotRuleObject, namespace.name))


def _of_action(action: Object, world: Snapshot) -> Names:
    uid = str(action.at("spec", "object", "uid", default=""))
    return (one.key for one in world.where(AutopilotRuleObject, "status.object.uid", uid))
