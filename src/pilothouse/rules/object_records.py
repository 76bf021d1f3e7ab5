"""What is known about one object under one rule: its record, and its situation.

    record = ObjectRecord(state="Triggered", since=now, until=now + 30)
    situation = Situation(verdict=Verdict.MET, targets=(ActionTarget({"to": "480Mi"}),))

All times are of one clock that is never set: see ``steady_clock``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.api.openstorage.actions import FINISHED
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec, ObjectState, RuleAction
from pilothouse.rules.action_targets import ActionTarget, TargetResult
from pilothouse.rules.verdict import Verdict

INITIALIZING: Final = "Initializing"
NORMAL: Final = "Normal"
TRIGGERED: Final = "Triggered"
AWAITING_APPROVAL: Final = "ActionAwaitingApproval"
AWAITING_WINDOW: Final = "ActionAwaitingWindow"
PENDING: Final = "ActiveActionsPending"
IN_PROGRESS: Final = "ActiveActionsInProgress"
TAKEN: Final = "ActiveActionsTaken"
DECLINED: Final = "ActionsDeclined"


class RecordItem(msgspec.Struct, frozen=True):
    """One thing that happened."""

    state: ObjectState
    time: float
    message: str = ""
    approval: str = ""


class ObjectRecord(msgspec.Struct, frozen=True):
    """What an AutopilotRuleObject's status says."""

    state: ObjectState | None = None
    since: float = 0.0
    until: float | None = None
    generation: int = 0
    triggers: int = 0
    failures: int = 0
    action: str = ""
    approval: str = ""
    """The uid of the ActionApproval that counts."""
    candidate: str = ""
    """The candidate that was chosen by the last trigger."""
    approaching: bool = False
    """Whether values were near the conditions, or met them, when it was last looked at."""
    items: tuple[RecordItem, ...] = ()


class RuleTerms(msgspec.Struct, frozen=True):
    """The rule, as far as the states depend on it."""

    name: str
    generation: int
    spec: AutopilotRuleSpec

    def actions_of(self, candidate: str) -> tuple[RuleAction, ...]:
        """What is done if this candidate holds; a rule without candidates has actions of its own."""
        found = (one.actions for one in self.spec.candidates if one.name == candidate)
        return next(found, self.spec.actions)

    @property
    def asks_first(self) -> bool:
        return self.spec.enforcement == "approvalRequired"

    @property
    def recommends(self) -> bool:
        return self.spec.enforcement == "recommend"


class ActionRecord(msgspec.Struct, frozen=True):
    """An ApplicationAction of the object, of this rule or another."""

    rule: str
    trigger: int
    phase: str = ""
    completed: float | None = None
    message: str = ""

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED


class ApprovalRecord(msgspec.Struct, frozen=True):
    """The ActionApproval of the object's name."""

    uid: str
    state: str
    as_asked: bool = True
    """Whether its actions are still the rule's."""
    generation: int | None = None
    target: Mapping[str, str] = {}
    expires_in: float | None = None
    """In how many seconds it expires; None is never."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the object now."""

    verdict: Verdict = Verdict.UNKNOWN
    sampled: float = math.inf
    """When the oldest of the samples that made the verdict was measured."""
    resumed: float = -math.inf
    """When the first verdict after a gap of several polls came."""
    near: bool | None = None
    """Whether values are near the conditions; None if that is not known."""
    targets: tuple[TargetResult, ...] = (ActionTarget(),)
    """Of the actions to do, in order; the reason why there are none if no candidate holds."""
    candidate: str = ""
    """The candidate whose actions they are; empty if the rule has none, or none holds."""
    turn: str = ""
    """Why it is not its turn, where only one object may be acted on at a time."""
    actions: Mapping[str, ActionRecord] = {}
    """The object's ApplicationActions by name."""
    approval: ApprovalRecord | None = None
    approval_name: str = ""
    """The name that the object's ActionApproval has or would have."""
    blocked: str = ""
    """The reason why another rule goes first."""
    window_opens: float | None = None
    """In how many seconds the rule's window opens; None if it is open, or there is none."""
    budget: str = ""
    """What is spent of the budget."""
