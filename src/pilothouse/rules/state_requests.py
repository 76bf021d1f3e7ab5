"""What the state of an object asks for, to be done before the state is written."""

from __future__ import annotations

import msgspec

from pilothouse.rules.action_targets import ActionTarget


class AskApproval(msgspec.Struct, frozen=True):
    """Create the ActionApproval."""

    target: ActionTarget


class DescribeApproval(msgspec.Struct, frozen=True):
    """Write into its status what would be done."""

    target: ActionTarget


class WithdrawApproval(msgspec.Struct, frozen=True):
    """Set it to canceled."""


class DiscardApproval(msgspec.Struct, frozen=True):
    """Delete it: it does not fit what would be done, or was created by another client."""


class StartAction(msgspec.Struct, frozen=True):
    """Create the ApplicationAction."""

    name: str
    number: int
    """Which of the rule's actions it is."""
    trigger: int
    target: ActionTarget


class Recommend(msgspec.Struct, frozen=True):
    """Record what would be done."""

    message: str


class ReportApproach(msgspec.Struct, frozen=True):
    """Record that values come near the conditions, once the state is written."""


StateRequest = (
    AskApproval
    | DescribeApproval
    | WithdrawApproval
    | DiscardApproval
    | StartAction
    | Recommend
    | ReportApproach
)
