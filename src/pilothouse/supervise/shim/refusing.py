"""Why a program could not be started: one word for programs, one sentence for people."""

from __future__ import annotations


class Refusal(Exception):
    """What `LaunchError` is outside the shim."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
