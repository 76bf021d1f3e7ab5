"""An instance of a container: one run of its program, numbered from 0; the number is the restart count."""

from __future__ import annotations

import msgspec


class RunningInstance(msgspec.Struct, frozen=True):
    attempt: int
    since: float
    post_start_done: bool = True
    """Whether its postStart hook is done; true without a hook."""


class EndedInstance(msgspec.Struct, frozen=True):
    """An instance that has ended, or failed to start. Stored as JSON in the pod's directory."""

    attempt: int
    code: int
    started: float
    finished: float
    signal: int = 0
    reason: str = ""
    message: str = ""
    lost: bool = False
    """Whether it ended by a reboot of the machine: its effects other than files are lost."""

    @property
    def succeeded(self) -> bool:
        return self.code == 0
