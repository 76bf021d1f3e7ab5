"""What came of a decision: each intent with what happened to it, and how the whole stands."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from pilothouse.runtime.intents import Intent, RecordEvent, RequeueAfter, Wait

NOTHING: Final = "Nothing"
"""How a decision stands that did nothing and waits for nothing."""


class IntentOutcome(StrEnum):
    """What happened to an intent."""

    DONE = "Done"
    SKIPPED = "Skipped"
    """It was so already."""
    REFUSED = "Refused"
    """The world had changed since it was looked at; the decision is taken again."""
    FAILED = "Failed"
    PENDING = "Pending"
    """An intent before it failed, so it was not tried; or it is for later."""


class ExecutedIntent(msgspec.Struct, frozen=True):
    """An intent and what came of it."""

    intent: Intent
    outcome: IntentOutcome
    message: str = ""
    is_rejected: bool = False
    """The server did not accept what was asked for: asked again, it would not either."""


class ReconcileResult(msgspec.Struct, frozen=True):
    """A decision and what came of it."""

    acts: tuple[ExecutedIntent, ...] = ()
    error: str = ""
    """Why there was no decision at all: the function that decides broke."""

    @property
    def failure(self) -> str:
        """The first thing that went wrong; empty if nothing did."""
        if self.error:
            return self.error
        return next((act.message for act in self.acts if act.outcome is IntentOutcome.FAILED), "")

    @property
    def refused(self) -> bool:
        """True if the world had changed."""
        return any(act.outcome is IntentOutcome.REFUSED for act in self.acts)

    @property
    def wait(self) -> Wait | None:
        """What is waited for: of several, the first."""
        return next((act.intent for act in self.acts if isinstance(act.intent, Wait)), None)

    @property
    def again(self) -> float | None:
        """RequeueAfter how many seconds to look again, by what the intents ask for."""
        asked = [
            act.intent.seconds
            for act in self.acts
            if isinstance(act.intent, (Wait, RequeueAfter)) and act.intent.seconds is not None
        ]
        return min(asked, default=None)

    @property
    def done(self) -> tuple[ExecutedIntent, ...]:
        """What was really done to objects."""
        return tuple(
            act
            for act in self.acts
            if act.outcome is IntentOutcome.DONE
            and not isinstance(act.intent, (Wait, RequeueAfter, RecordEvent))
        )

    @property
    def standing(self) -> str:
        """In a word, as a decision's record has it."""
        if not self.acts and not self.error:
            return NOTHING
        if self.failure:
            return "Failed"
        if self.wait is not None:
            return "Waiting"
        return "Done" if self.done else NOTHING
