"""An object under each of its rules: what is on record, what was measured, and what else is known.

    every = ruled_objects(one, world, readings, settings)
    every[0].case(world, every, readings, settings)              # for ``advance``

Rules are in the order in which they go first: the heavier, and of two that weigh the same the first by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pilothouse.api.kind_names import (
    ActionApproval,
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    ConfigMap,
    KindName,
    Namespace,
)
from pilothouse.api.objects import Object
from pilothouse.api.openstorage import v1alpha1
from pilothouse.api.openstorage.action_windows import seconds_until_open
from pilothouse.api.openstorage.actions import FINISHED, object_type
from pilothouse.api.openstorage.pauses import PAUSE_ALL, is_paused, pauses_all
from pilothouse.rules.action_budgets import GLOBAL_BUDGET, counted, spent, with_defaults
from pilothouse.rules.action_targets import ActionTarget, TargetDeclined, TargetNotReady, TargetResult
from pilothouse.rules.candidate_choice import Choice, choose
from pilothouse.rules.object_records import (
    AWAITING_APPROVAL,
    AWAITING_WINDOW,
    DECLINED,
    IN_PROGRESS,
    PENDING,
    TAKEN,
    TRIGGERED,
    ActionRecord,
    ApprovalRecord,
    ObjectRecord,
    RuleTerms,
    Situation,
)
from pilothouse.rules.object_states import present_wait
from pilothouse.rules.object_types import (
    full_name,
    is_present,
    kinds_of,
    records_of,
    ruled_kinds,
    subject_of,
    type_of_rule,
    types_of,
)
from pilothouse.rules.opposite_actions import any_opposite
from pilothouse.rules.readings import ObjectReading, Readings
from pilothouse.rules.rule_case import RuleCase, action_prefix
from pilothouse.rules.rule_object_status import (
    OBJECT_LABEL,
    approval_name,
    label_value,
    record_of,
    rule_object_name,
)
from pilothouse.rules.rule_problems import invalid_because
from pilothouse.rules.rule_queries import every_action
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.targets.target_table import TARGET_READS, target_of
from pilothouse.rules.verdict import Verdict
from pilothouse.runtime.snapshot import Snapshot

_RECORDS: Final = (
    ActionApproval,
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    ConfigMap,
    Namespace,
)
_POOL: Final = "storagepool"
_MOST_NAMES: Final = 5
_COMPLETE: Final = "Complete"


def reads() -> tuple[KindName, ...]:
    """The kinds that are read here."""
    return tuple(dict.fromkeys((*_RECORDS, *ruled_kinds(), *TARGET_READS)))


class RuleSettings(msgspec.Struct, frozen=True):
    """What holds for all rules."""

    recommend_only: bool = False
    budget: v1alpha1.ActionBudget = GLOBAL_BUDGET


class ActedOn(msgspec.Struct, frozen=True):
    """An action that is to be done, the object that it acts on, and its target."""

    action: v1alpha1.RuleAction
    object: Object | None
    """None if there is not exactly one."""
    target: TargetResult


class RuledObject(msgspec.Struct, frozen=True):
    """An object under one rule, among its other rules."""

    rule: Object
    terms: RuleTerms
    object: Object
    rule_object: Object | None
    record: ObjectRecord
    reading: ObjectReading
    pause: str
    """Why nothing is done now; empty if nothing is paused."""

    @property
    def about(self) -> str:
        """The type of the object."""
        return type_of_rule(self.terms.spec)

    @property
    def subject(self) -> str:
        """What its records are named after."""
        return subject_of(self.object)

    @property
    def namespace(self) -> str:
        """Of its records."""
        return records_of(self.object)

    @property
    def name(self) -> str:
        """Of its AutopilotRuleObject."""
        return rule_object_name(self.rule.name, self.subject)

    @property
    def approval_name(self) -> str:
        return approval_name(self.rule.name, self.subject)

    @property
    def choice(self) -> Choice:
        """What is to be done about it, as far as candidates decide."""
        return choose(self.terms.spec, self.reading, self.record)

    def approval(self, world: Snapshot) -> Object | None:
        return world.find(ActionApproval, self.namespace, self.approval_name)

    def acted_on(self, world: Snapshot, readings: Readings) -> tuple[ActedOn, ...]:
        """What is to be done to what, in order."""
        return tuple(self._acted_on(action, world, readings) for action in self.choice.actions)

    def _acted_on(self, action: v1alpha1.RuleAction, world: Snapshot, readings: Readings) -> ActedOn:
        level = object_type(action.name)
        if level == self.about or not kinds_of(level):
            return ActedOn(action, self.object, target_of(action, self.object, world))
        found = readings.reached(self.about, self.object, level)
        if found is None:
            return ActedOn(action, None, TargetNotReady("it is not known yet what belongs to the object"))
        if len(found) != 1:
            names = ", ".join(full_name(one) for one in found[:_MOST_NAMES]) or "none"
            because = f"{full_name(self.object)} has not exactly one {level}: {names}"
            return ActedOn(action, None, TargetDeclined(because))
        one = world.find(found[0].noun, *found[0].key) or found[0]
        return ActedOn(action, one, target_of(action, one, world))

    def case(
        self, world: Snapshot, others: Sequence[RuledObject], readings: Readings, settings: RuleSettings
    ) -> RuleCase:
        """What decides about it."""
        # By how much the wall clock is ahead of the steady one.
        ahead = readings.ahead
        choice, acted = self.choice, self.acted_on(world, readings)
        targets = (choice.problem,) if choice.problem is not None else tuple(one.target for one in acted)
        objects = {self.object.uid, *(one.object.uid for one in acted if one.object is not None)}
        budget = turn = ""
        if self.record.state in (PENDING, IN_PROGRESS):
            budget = self._spent(world, targets, settings, readings)
            turn = self._turn(acted, world)
        situation = Situation(
            verdict=self.reading.verdict,
            sampled=self.reading.sampled - ahead,
            resumed=self.reading.resumed,
            near=self.reading.near,
            targets=targets,
            candidate=choice.name,
            actions={one.name: _action(one, ahead) for one in self._actions(world, objects)},
            approval=self._approval(world, readings),
            approval_name=self.approval_name,
            blocked=self._blocked(others, world, readings, settings),
            window_opens=seconds_until_open(self.terms.spec.action_window, world.now),
            budget=budget,
            turn=turn,
        )
        return RuleCase(self.terms, self.object.uid, self.record, situation, world.now - ahead)

    def _actions(self, world: Snapshot, uids: set[str]) -> Iterable[Object]:
        """The ApplicationActions on these objects, and those that the rule fired for its own."""
        for uid in sorted(uids):
            yield from world.where(ApplicationAction, "spec.object.uid", uid)
        if any(object_type(one.name) != self.about for one in every_action(self.terms.spec)):
            prefix = action_prefix(self.rule.name, self.object.uid)
            for one in world.where(ApplicationAction, "spec.rule", self.rule.name):
                if one.name.startswith(prefix):
                    yield one

    def _turn(self, acted: Sequence[ActedOn], world: Snapshot) -> str:
        """Why another storage pool goes first: one at a time in the whole cluster."""
        if not any(object_type(one.action.name) == _POOL for one in acted):
            return ""
        for one in world.lacking(ApplicationAction, "status.completionTime"):
            if object_type(str(one.spec.get("action", ""))) != _POOL:
                continue
            if one.at("status", "phase") not in FINISHED:
                pool = one.at("spec", "object", "name", default="")
                return f"one storage pool is acted on at a time, and {one.name} is under way on {pool}"
        return ""

    def _approval(self, world: Snapshot, readings: Readings) -> ApprovalRecord | None:
        found = self.approval(world)
        if found is None or found.deleting:
            return None
        approval = found.as_type(v1alpha1.ActionApproval)
        status = approval.status or v1alpha1.ActionApprovalStatus()
        expires_after = self.terms.spec.approval_expires_after
        age = world.now - readings.ahead - readings.moment(found.created)
        return ApprovalRecord(
            uid=found.uid,
            state=approval.spec.approval_state,
            as_asked=approval.spec.actions == self.choice.actions,
            generation=status.rule_generation if status.rule_uid == self.rule.uid else None,
            target=status.target,
            expires_in=expires_after - age if expires_after else None,
        )

    def _blocked(
        self, others: Sequence[RuledObject], world: Snapshot, readings: Readings, settings: RuleSettings
    ) -> str:
        """Which other rule goes first, and what that one waits for. One whose budget is spent holds up only
        opposite actions: there may be no room in it for a day."""
        for other in others:
            if other is self:
                continue
            state, name = other.record.state, other.rule.name
            if state in (IN_PROGRESS, TAKEN):
                return f"rule {name} has acted on the object, and its cool-down is not over"
            waits = state == PENDING or (state == TRIGGERED and other.reading.verdict is Verdict.MET)
            if not _goes_first(other, self) or other.pause or other.terms.recommends:
                continue
            first = f"rule {name} goes first (weight {other.terms.spec.weight})"
            is_spent = state == PENDING and other._is_spent(world, readings, settings)
            if waits and not is_spent:
                return first + other._wait_in_words(world, others, readings, settings)
            if self._would_undo(other, is_spent):
                wait = other._wait_in_words(world, others, readings, settings)
                return f"{first}, and does the opposite{wait}"
        return ""

    def _wait_in_words(
        self, world: Snapshot, others: Sequence[RuledObject], readings: Readings, settings: RuleSettings
    ) -> str:
        """For the end of a message: a rule that this one waits for is named with its own wait, and so on."""
        wait, _ = present_wait(self.case(world, others, readings, settings))
        return f"; rule {self.rule.name} waits: {wait.because}" if wait is not None else ""

    def _would_undo(self, other: RuledObject, is_spent: bool) -> bool:
        """Whether the other rule wants the opposite and can't act now, or has no more to do."""
        record = other.record
        engine_declined = record.state == DECLINED and record.until is not None
        return (
            (engine_declined or is_spent or record.state in (AWAITING_APPROVAL, AWAITING_WINDOW))
            and other.reading.verdict is Verdict.MET
            and any_opposite(self.choice.actions, other.choice.actions)
        )

    def _is_spent(self, world: Snapshot, readings: Readings, settings: RuleSettings) -> bool:
        targets = tuple(one.target for one in self.acted_on(world, readings))
        return bool(self._spent(world, targets, settings, readings))

    def _spent(
        self, world: Snapshot, targets: Sequence[TargetResult], settings: RuleSettings, readings: Readings
    ) -> str:
        target = next((one for one in targets if isinstance(one, ActionTarget)), ActionTarget())
        now, moment = world.now - readings.ahead, readings.moment
        own = with_defaults(self.terms.spec.budget)
        shared = with_defaults(readings.budget, settings.budget)
        everything = counted((own, shared), self.object.uid, world, now, readings.aheads)
        mine = [one for one in everything if one.spec.get("rule") == self.rule.name]
        if problem := spent(own, mine, self.object.uid, target, now, moment):
            return problem
        problem = spent(shared, everything, self.object.uid, target, now, moment)
        return f"of all rules together {problem}" if problem else ""


def ruled_objects(
    one: Object,
    world: Snapshot,
    readings: Readings,
    settings: RuleSettings,
    besides: Iterable[str] = (),
) -> list[RuledObject]:
    """The object under each rule that selects it and has a record of it, or to which its values matter;
    ``besides`` names further rules, with or without a record."""
    if one.deleting or not is_present(one):
        return []
    subject, namespace = subject_of(one), records_of(one)
    on_record = world.where(AutopilotRuleObject, f"metadata.labels.{OBJECT_LABEL}", label_value(subject))
    known = {
        str(owner["name"]): each
        for each in on_record
        if each.namespace == namespace
        and (owner := each.controller) is not None
        and each.name == rule_object_name(str(owner["name"]), subject)
    }
    found = (
        ruled_object(rule, one, known.get(rule.name), world, readings, settings)
        for name in {*known, *readings.due(one), *besides}
        if (rule := world.find(AutopilotRule, "", name)) is not None
    )
    return sorted((each for each in found if each is not None), key=_rank)


def ruled_object(
    rule: Object,
    one: Object,
    rule_object: Object | None,
    world: Snapshot,
    readings: Readings,
    settings: RuleSettings,
) -> RuledObject | None:
    """The object under this rule; None if the rule does not select it, or can't be followed."""
    terms = terms_of(rule, settings)
    if terms is None or rule.deleting or not selects(terms, one, world):
        return None
    if rule_object is not None and (rule_object.controller or {}).get("uid") != rule.uid:
        return None
    record = record_of(rule_object, one.uid) if rule_object is not None else ObjectRecord()
    reading = readings.of(rule, one)
    return RuledObject(rule, terms, one, rule_object, record, reading, _pause(rule, one, world))


def terms_of(rule: Object, settings: RuleSettings) -> RuleTerms | None:
    """None if the rule is not valid, which only another server lets pass."""
    if invalid_because(rule):
        return None
    spec = rule.as_type(v1alpha1.AutopilotRule).spec
    if settings.recommend_only:
        spec = msgspec.structs.replace(spec, enforcement="recommend")
    return RuleTerms(rule.name, rule.generation, spec)


def selects(terms: RuleTerms, one: Object, world: Snapshot) -> bool:
    """Whether a rule is about objects of this type, and selects this one."""
    if type_of_rule(terms.spec) not in types_of(one):
        return False
    namespace = world.find(Namespace, "", one.namespace) if one.namespace else None
    return RuleSelection.of(terms.spec).matches(one, namespace)


def _rank(ruled: RuledObject) -> tuple[int, str]:
    return -ruled.terms.spec.weight, ruled.rule.name


def _goes_first(one: RuledObject, other: RuledObject) -> bool:
    return _rank(one) < _rank(other)


def _pause(rule: Object, one: Object, world: Snapshot) -> str:
    everything = world.find(ConfigMap, *PAUSE_ALL)
    if everything is not None and pauses_all(everything.get("data")):
        return "all rules are paused"
    namespace = world.find(Namespace, "", one.namespace) if one.namespace else None
    for each in _present(rule, namespace, one):
        if is_paused(each.annotations):
            return f"{each.kind} {each.name} is paused"
    return ""


def _present(*objects: Object | None) -> Iterable[Object]:
    return (one for one in objects if one is not None)


def _action(action: Object, ahead: float) -> ActionRecord:
    completed = action.moment("status", "completionTime")
    return ActionRecord(
        rule=str(action.spec.get("rule", "")),
        trigger=int(action.spec.get("trigger") or 0),
        phase=str(action.status.get("phase") or ""),
        completed=completed - ahead if completed is not None else None,
        message=str((action.condition(_COMPLETE) or {}).get("message", "")),
    )
