"""The result of a reconcile: each intent with its outcome, and the outcome of the whole."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from pilothouse.runtime.intents import Intent, RecordEvent, RequeueAfter, Wait

NOTHING: Final = "Nothing"
"""The outcome of a decision that does nothing and waits for nothing."""


class IntentOutcome(StrEnum):
    DONE = "Done"
    SKIPPED = "Skipped"
    """It was true already."""
    REFUSED = "Refused"
    """An object has changed since it was read; the controller decides again."""
    FAILED = "Failed"
    PENDING = "Pending"
    """Not tried, because an earlier intent failed; or a wait."""


class ExecutedIntent(msgspec.Struct, frozen=True):
    """An intent and its outcome."""

    intent: Intent
    outcome: IntentOutcome
    message: str = ""
    is_rejected: bool = False
    """The server rejects the request, and would reject it again."""


class ReconcileResult(msgspec.Struct, frozen=True):
    """A decision and its outcome."""

    executed: tuple[ExecutedIntent, ...] = ()
    error: str = ""
    """The error that the decision function raised."""

    @property
    def failure(self) -> str:
        """The first error; empty if there is none."""
        if self.error:
            return self.error
        return next((each.message for each in self.executed if each.outcome is IntentOutcome.FAILED), "")

    @property
    def refused(self) -> bool:
        """True if an object had changed."""
        return any(each.outcome is IntentOutcome.REFUSED for each in self.executed)

    @property
    def wait(self) -> Wait | None:
        """The first wait, if any."""
        return next((each.intent for each in self.executed if isinstance(each.intent, Wait)), None)

    @property
    def again(self) -> float | None:
        """Seconds until the next reconcile that the intents ask for."""
        asked = [
            each.intent.seconds
            for each in self.executed
            if isinstance(each.intent, (Wait, RequeueAfter)) and each.intent.seconds is not None
        ]
        return min(asked, default=None)

    @property
    def done(self) -> tuple[ExecutedIntent, ...]:
        """The intents that changed objects."""
        return tuple(
            each
            for each in self.executed
            if each.outcome is IntentOutcome.DONE
            and not isinstance(each.intent, (Wait, RequeueAfter, RecordEvent))
        )

    @property
    def standing(self) -> str:
        """The outcome, as a Decision has it."""
        if not self.executed and not self.error:
            return NOTHING
        if self.failure:
            return "Failed"
        if self.wait is not None:
            return "Waiting"
        return "Done" if self.done else NOTHING
