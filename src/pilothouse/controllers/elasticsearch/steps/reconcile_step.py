"""One step of a decision: what is done next, or waited for."""

from __future__ import annotations

from typing import Self

import msgspec

from pilothouse.runtime.intents import Intent, Wait


class ReconcileStep(msgspec.Struct, frozen=True):
    """What is done next, or waited for."""

    reason: str
    """In CamelCase, for conditions."""
    message: str
    """For people."""
    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None
    refused: bool = False
    """Not done until the spec changes; everything else goes on."""
    gist: str = ""
    """The start of the message, without changing figures; events carry only this."""
    takes_down: tuple[str, ...] = ()
    """The names of the nodes that its intents take down: see ``cluster_disruptions``."""

    @classmethod
    def waiting(cls, reason: str, wait: Wait, prefix: str = "") -> Self:
        """A step that can't be taken yet. ``prefix`` says which."""
        return cls(reason, f"{prefix}: {wait.because}" if prefix else wait.because, wait=wait)
