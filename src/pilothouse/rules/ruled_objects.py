"""A claim under each of its rules: what is on record, what was measured, and what else is known.

    every = ruled_objects(claim, world, readings, settings)
    every[0].case(world, every, readings.ahead, settings)        # for ``advance``

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
    Namespace,
    PersistentVolumeClaim,
)
from pilothouse.api.objects import Object
from pilothouse.api.openstorage import v1alpha1
from pilothouse.api.openstorage.action_windows import seconds_until_open
from pilothouse.api.openstorage.pauses import PAUSE_ALL, is_paused, pauses_all
from pilothouse.meta.selectors import SelectorError
from pilothouse.rules.action_budgets import GLOBAL_BUDGET, spent, with_defaults
from pilothouse.rules.action_targets import ActionTarget, is_bound
from pilothouse.rules.object_records import (
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
from pilothouse.rules.readings import ObjectReading, Readings
from pilothouse.rules.rule_case import RuleCase
from pilothouse.rules.rule_object_status import (
    OBJECT_LABEL,
    approval_name,
    label_value,
    record_of,
    rule_object_name,
)
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.targets.target_table import target_of
from pilothouse.rules.verdict import Verdict
from pilothouse.runtime.snapshot import Snapshot

READS: Final = (
    ActionApproval,
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    ConfigMap,
    Namespace,
    PersistentVolumeClaim,
)
"""The kinds that are read here."""
_COMPLETE: Final = "Complete"


class RuleSettings(msgspec.Struct, frozen=True):
    """What holds for all rules."""

    recommend_only: bool = False
    budget: v1alpha1.ActionBudget = GLOBAL_BUDGET


class RuledObject(msgspec.Struct, frozen=True):
    """A claim under one rule, among its other rules."""

    rule: Object
    terms: RuleTerms
    claim: Object
    rule_object: Object | None
    record: ObjectRecord
    reading: ObjectReading
    pause: str
    """Why nothing is done now; empty if nothing is paused."""

    @property
    def volume(self) -> str:
        return str(self.claim.spec["volumeName"])

    @property
    def name(self) -> str:
        """Of its AutopilotRuleObject."""
        return rule_object_name(self.rule.name, self.volume)

    @property
    def approval_name(self) -> str:
        return approval_name(self.rule.name, self.volume)

    def approval(self, world: Snapshot) -> Object | None:
        return world.find(ActionApproval, self.claim.namespace, self.approval_name)

    def case(
        self, world: Snapshot, others: Sequence[RuledObject], ahead: float, settings: RuleSettings
    ) -> RuleCase:
        """What decides about it; ``ahead`` is by how much the wall clock is ahead of the steady one."""
        targets = tuple(target_of(action, self.claim, world) for action in self.terms.spec.actions)
        actions = world.where(ApplicationAction, "spec.object.uid", self.claim.uid)
        budget = ""
        if self.record.state in (PENDING, IN_PROGRESS):
            target = next((one for one in targets if isinstance(one, ActionTarget)), ActionTarget())
            budget = self._spent(world, target, settings)
        situation = Situation(
            verdict=self.reading.verdict,
            sampled=self.reading.sampled - ahead,
            resumed=self.reading.resumed,
            near=self.reading.near,
            targets=targets,
            actions={one.name: _action(one, ahead) for one in actions},
            approval=self._approval(world),
            approval_name=self.approval_name,
            blocked=self._blocked(others),
            window_opens=seconds_until_open(self.terms.spec.action_window, world.now),
            budget=budget,
        )
        return RuleCase(self.terms, self.claim.uid, self.record, situation, world.now - ahead)

    def _approval(self, world: Snapshot) -> ApprovalRecord | None:
        found = self.approval(world)
        if found is None or found.deleting:
            return None
        approval = found.as_type(v1alpha1.ActionApproval)
        status = approval.status or v1alpha1.ActionApprovalStatus()
        expires_after = self.terms.spec.approval_expires_after
        return ApprovalRecord(
            uid=found.uid,
            state=approval.spec.approval_state,
            as_asked=approval.spec.actions == self.terms.spec.actions,
            generation=status.rule_generation if status.rule_uid == self.rule.uid else None,
            target=status.target,
            expires_in=found.created + expires_after - world.now if expires_after else None,
        )

    def _blocked(self, others: Sequence[RuledObject]) -> str:
        """Which other rule goes first."""
        for other in others:
            if other is self:
                continue
            state, name = other.record.state, other.rule.name
            if state in (IN_PROGRESS, TAKEN):
                return f"rule {name} has acted on the object, and its cool-down is not over"
            waits = state == PENDING or (state == TRIGGERED and other.reading.verdict is Verdict.MET)
            if waits and _goes_first(other, self) and not other.pause and not other.terms.recommends:
                return f"rule {name} goes first (weight {other.terms.spec.weight})"
        return ""

    def _spent(self, world: Snapshot, target: ActionTarget, settings: RuleSettings) -> str:
        everything = world.all(ApplicationAction)
        mine = [one for one in everything if one.spec.get("rule") == self.rule.name]
        own = with_defaults(self.terms.spec.budget)
        if problem := spent(own, mine, self.claim.uid, target, world.now):
            return problem
        problem = spent(settings.budget, everything, self.claim.uid, target, world.now)
        return f"of all rules together {problem}" if problem else ""


def ruled_objects(
    claim: Object,
    world: Snapshot,
    readings: Readings,
    settings: RuleSettings,
    besides: Iterable[str] = (),
) -> list[RuledObject]:
    """The claim under each rule that selects it and has a record of it, or to which its values matter;
    ``besides`` names further rules, with or without a record."""
    if claim.deleting or not is_bound(claim):
        return []
    volume = label_value(str(claim.spec["volumeName"]))
    on_record = world.where(AutopilotRuleObject, f"metadata.labels.{OBJECT_LABEL}", volume)
    known = {str(owner["name"]): one for one in on_record if (owner := one.controller) is not None}
    found = (
        ruled_object(rule, claim, known.get(rule.name), world, readings, settings)
        for name in {*known, *readings.due(claim), *besides}
        if (rule := world.find(AutopilotRule, "", name)) is not None
    )
    return sorted((one for one in found if one is not None), key=_rank)


def ruled_object(
    rule: Object,
    claim: Object,
    rule_object: Object | None,
    world: Snapshot,
    readings: Readings,
    settings: RuleSettings,
) -> RuledObject | None:
    """The claim under this rule; None if the rule does not select it, or can't be followed."""
    terms = terms_of(rule, settings)
    if terms is None or rule.deleting or not selects(terms, claim, world):
        return None
    if rule_object is not None and (rule_object.controller or {}).get("uid") != rule.uid:
        return None
    record = record_of(rule_object, claim.uid) if rule_object is not None else ObjectRecord()
    reading = readings.of(rule, claim)
    return RuledObject(rule, terms, claim, rule_object, record, reading, _pause(rule, claim, world))


def terms_of(rule: Object, settings: RuleSettings) -> RuleTerms | None:
    """None if the rule is not valid, which only another server lets pass."""
    try:
        spec = rule.as_type(v1alpha1.AutopilotRule).spec
        RuleSelection.of(spec)
    except (msgspec.ValidationError, SelectorError):
        return None
    if settings.recommend_only:
        spec = msgspec.structs.replace(spec, enforcement="recommend")
    return RuleTerms(rule.name, rule.generation, spec)


def selects(terms: RuleTerms, claim: Object, world: Snapshot) -> bool:
    namespace = world.find(Namespace, "", claim.namespace)
    return RuleSelection.of(terms.spec).matches(claim, namespace)


def _rank(ruled: RuledObject) -> tuple[int, str]:
    return -ruled.terms.spec.weight, ruled.rule.name


def _goes_first(one: RuledObject, other: RuledObject) -> bool:
    return _rank(one) < _rank(other)


def _pause(rule: Object, claim: Object, world: Snapshot) -> str:
    everything = world.find(ConfigMap, *PAUSE_ALL)
    if everything is not None and pauses_all(everything.get("data")):
        return "all rules are paused"
    namespace = world.find(Namespace, "", claim.namespace)
    for one in _present(rule, namespace, claim):
        if is_paused(one.annotations):
            return f"{one.kind} {one.name} is paused"
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
