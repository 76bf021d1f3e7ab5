"""Rules and situations of one object, for tests of the state machine."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.rules.action_targets import ActionTarget
from pilothouse.rules.object_records import (
    ActionRecord,
    ApprovalRecord,
    ObjectRecord,
    RuleTerms,
    Situation,
)
from pilothouse.rules.object_states import StateOutcome, advance
from pilothouse.rules.rule_case import RuleCase, action_name
from pilothouse.rules.state_requests import AskApproval, DescribeApproval, DiscardApproval, StartAction
from pilothouse.rules.verdict import Verdict

UID = "claim-1"
GROWN = ActionTarget({"from": "8Gi", "to": "12Gi"}, 4 * 1024**3)


def rule(*, name: str = "grow", generation: int = 1, hold: int = 30, **fields: Any) -> RuleTerms:
    """A rule that resizes; ``hold`` is ``conditions.for``, the other fields are the spec's."""
    spec = {
        "conditions": {
            "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": ["50"]}],
            "for": hold,
        },
        "actions": [{"name": RESIZE}],
        "actionsCoolDownPeriod": 300,
        "pollInterval": 10,
        **fields,
    }
    return RuleTerms(name, generation, msgspec.convert(spec, AutopilotRuleSpec))


def situation(verdict: Verdict = Verdict.MET, **fields: Any) -> Situation:
    return Situation(**{"verdict": verdict, "targets": (GROWN,), **fields})


class SteppedObject:
    """One object whose record is kept, while a test changes the situation and the time.

    ``crash`` loses what a step has decided, but not what it had asked for.
    """

    def __init__(self, terms: RuleTerms | None = None, *, now: float = 1000.0) -> None:
        self.rule = terms or rule()
        self.record = ObjectRecord()
        self.now = now
        self.verdict = Verdict.UNKNOWN
        self.actions: dict[str, ActionRecord] = {}
        self.approval: ApprovalRecord | None = None
        self.approvals = 0
        self.path: list[str] = []
        """The states, in order."""

    def at(self, seconds: float, verdict: Verdict | None = None, **fields: Any) -> StateOutcome:
        """Let time pass, and take steps until nothing changes."""
        self.now += seconds
        if verdict is not None:
            self.verdict = verdict
        while True:
            outcome = self.step(**fields)
            if outcome.record == self.record and not outcome.requests:
                return outcome
            self.write(outcome)

    def step(self, **fields: Any) -> StateOutcome:
        facts = {
            "sampled": self.now,
            "actions": self.actions,
            "approval": self.approval,
            "approval_name": "grow-pvc-1",
            **fields,
        }
        return advance(RuleCase(self.rule, UID, self.record, situation(self.verdict, **facts), self.now))

    def write(self, outcome: StateOutcome) -> None:
        self.crash(outcome)
        self.path.extend(str(one.to) for one in outcome.transitions)
        self.record = outcome.record

    def crash(self, outcome: StateOutcome) -> None:
        """Everything that was asked for is done, and the record is not written."""
        for request in outcome.requests:
            match request:
                case StartAction():
                    assert request.name not in self.actions, "an action is not started twice"
                    self.actions[request.name] = ActionRecord(self.rule.name, request.trigger)
                case AskApproval():
                    self.approvals += 1
                    self.approval = ApprovalRecord(f"approval-{self.approvals}", "pending")
                case DescribeApproval():
                    assert self.approval is not None
                    self.approval = msgspec.structs.replace(
                        self.approval, generation=self.rule.generation, target=request.target.fields
                    )
                case DiscardApproval():
                    self.approval = None

    def decide(self, state: str) -> None:
        """A person approves or declines."""
        assert self.approval is not None
        self.approval = msgspec.structs.replace(self.approval, state=state)

    def end(self, phase: str, message: str = "") -> None:
        """The action on record ends."""
        name = self.record.action
        self.actions[name] = msgspec.structs.replace(
            self.actions[name], phase=phase, completed=self.now, message=message
        )

    @property
    def state(self) -> str | None:
        return self.record.state

    def expect_name(self, trigger: int) -> str:
        return action_name(self.rule.name, UID, trigger)
