"""One object under one rule at one moment; its properties are the conditions of ``object_states``."""

from __future__ import annotations

import hashlib
import math
from typing import Final

import msgspec

from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import (
    ActionTarget,
    TargetDeclined,
    TargetNotReady,
    TargetResult,
    has_same_effect,
)
from pilothouse.rules.object_records import ActionRecord, ObjectRecord, RuleTerms, Situation
from pilothouse.rules.verdict import Verdict

GAP: Final = 5
"""Polls without data after which conditions have to hold anew."""
SLACK: Final = 5.0
"""Seconds by which the clocks of two managers may differ without a timer being doubted."""
_DIGEST: Final = 5
_LONGEST_PREFIX: Final = 200


class RuleCase(msgspec.Struct, frozen=True):
    """A record, and all that decides what becomes of it."""

    rule: RuleTerms
    object_uid: str
    record: ObjectRecord
    situation: Situation
    now: float

    @property
    def verdict(self) -> Verdict:
        """Unknown also if it was sampled before the object's last action was complete."""
        return self.situation.verdict if self.situation.sampled > self.last_action else Verdict.UNKNOWN

    @property
    def last_action(self) -> float:
        """When the last action on the object, under any rule, was complete.

        One that seems to be complete later than now is left out: it was written under another clock."""
        times = (one.completed for one in self.situation.actions.values())
        past = (time for time in times if time is not None and time <= self.now)
        return max(past, default=-math.inf)

    @property
    def met(self) -> bool:
        return self.verdict is Verdict.MET

    @property
    def not_met(self) -> bool:
        return self.verdict is Verdict.NOT_MET

    @property
    def approaches(self) -> bool:
        """Values come near the conditions, which is not on record."""
        return self.not_met and self.situation.near is True and not self.record.approaching

    @property
    def recedes(self) -> bool:
        """Values were near the conditions, and are not any more."""
        return self.not_met and self.situation.near is False and self.record.approaching

    @property
    def edited(self) -> bool:
        return self.record.generation != self.rule.generation

    @property
    def actions(self) -> tuple[RuleAction, ...]:
        """What is to be done, in order; empty if no candidate holds."""
        return self.rule.actions_of(self.situation.candidate)

    @property
    def has_found_candidate(self) -> bool:
        """One holds, and none is on record."""
        return bool(self.situation.candidate) and self.record.candidate != self.situation.candidate

    @property
    def target(self) -> TargetResult:
        return self.situation.targets[0]

    @property
    def ready(self) -> bool:
        """There is a target."""
        return isinstance(self.target, ActionTarget)

    @property
    def ruled_out(self) -> bool:
        """The rule's own parameters rule the action out."""
        return isinstance(self.target, TargetDeclined)

    @property
    def timer_over(self) -> bool:
        return self.record.until is None or self.now >= self.record.until

    def timer_doubtful(self, longest: float) -> bool:
        """Whether it ends later than a timer of this length can."""
        until = self.record.until
        return until is not None and until > self.now + longest + SLACK

    @property
    def must_hold_anew(self) -> bool:
        """The time for which conditions held was interrupted, or an action has changed the object since."""
        record, spec = self.record, self.rule.spec
        if record.until is None:
            return not self.rule.recommends or self.edited
        began = record.until - spec.conditions.for_
        waits = self.situation.blocked or isinstance(self.target, TargetNotReady)
        late = self.now > record.until + GAP * spec.poll_interval + SLACK
        return (
            began < max(self.situation.resumed, self.last_action)
            or (late and not waits)
            or self.timer_doubtful(float(spec.conditions.for_))
        )

    @property
    def held(self) -> bool:
        """Conditions have held long enough, and no other rule goes first."""
        until = self.record.until
        return self.met and until is not None and self.now >= until and not self.situation.blocked

    @property
    def outside_window(self) -> bool:
        return self.situation.window_opens is not None

    @property
    def needs_approval(self) -> bool:
        return self.rule.asks_first and not self.ruled_out

    @property
    def approval_is_new(self) -> bool:
        """It asks what is to be asked, but is not on record: created a moment ago, or by another client.

        It counts from when its uid is on record, and a decision only if it is made after that."""
        approval = self.situation.approval
        return (
            approval is not None
            and approval.uid != self.record.approval
            and approval.state == "pending"
            and approval.as_asked
        )

    @property
    def approval_fits(self) -> bool:
        """It is the one that was asked for, about this rule and target, and has not expired."""
        approval = self.situation.approval
        if approval is None or approval.uid != self.record.approval or not approval.as_asked:
            return False
        expired = approval.expires_in is not None and approval.expires_in <= 0
        same = not isinstance(self.target, ActionTarget) or has_same_effect(
            approval.target, self.target.fields
        )
        return approval.generation == self.rule.generation and same and not expired

    def approval_is(self, state: str) -> bool:
        approval = self.situation.approval
        return approval is not None and self.approval_fits and approval.state == state

    @property
    def approval_is_stale(self) -> bool:
        approval = self.situation.approval
        return approval is not None and (not self.approval_fits or approval.state == "canceled")

    @property
    def approval_is_gone(self) -> bool:
        """The one on record was deleted."""
        approval = self.situation.approval
        return bool(self.record.approval) and (approval is None or approval.uid != self.record.approval)

    @property
    def action_number(self) -> int:
        """Which of the rule's actions the record names."""
        names = [self.name_of(number) for number in range(len(self.actions) or 1)]
        return names.index(self.record.action) if self.record.action in names else len(names) - 1

    def name_of(self, number: int) -> str:
        return action_name(self.rule.name, self.object_uid, self.record.triggers, number)

    @property
    def action(self) -> ActionRecord | None:
        """The action that the record names, or that its trigger would have."""
        return self.situation.actions.get(self.record.action or self.name_of(0))

    def action_is(self, *phases: str) -> bool:
        return self.action is not None and self.action.phase in phases

    @property
    def next_target(self) -> TargetResult | None:
        """The target of the action that follows the one on record; None after the last."""
        following = self.action_number + 1
        return self.situation.targets[following] if following < len(self.situation.targets) else None

    @property
    def next_ready(self) -> bool:
        return isinstance(self.next_target, ActionTarget)

    @property
    def next_ruled_out(self) -> bool:
        return isinstance(self.next_target, TargetDeclined)

    @property
    def busy(self) -> bool:
        """An action on the object, under any rule, is under way."""
        return any(not one.finished for one in self.situation.actions.values())

    @property
    def may_start(self) -> bool:
        """Every gate before an action but the budget and the turn."""
        return (
            self.met
            and self.timer_over
            and not self.outside_window
            and not self.situation.blocked
            and not self.busy
        )

    @property
    def next_trigger(self) -> int:
        """A number whose name no action has, not even one that outlived its AutopilotRuleObject."""
        mine = (one.trigger for one in self.situation.actions.values() if one.rule == self.rule.name)
        return max(self.record.triggers, *mine, 0) + 1


def action_name(rule: str, object_uid: str, trigger: int, number: int = 0) -> str:
    """The name of an ApplicationAction: the same for the same trigger, in every process."""
    suffix = f"-{number}" if number else ""
    return f"{action_prefix(rule, object_uid)}{trigger}{suffix}"


def action_prefix(rule: str, object_uid: str) -> str:
    """How the names of all ApplicationActions of an object under a rule begin."""
    digest = hashlib.blake2s(f"{rule}\0{object_uid}".encode(), digest_size=_DIGEST).hexdigest()
    return f"{rule[:_LONGEST_PREFIX].rstrip('-.')}-{digest}-"
