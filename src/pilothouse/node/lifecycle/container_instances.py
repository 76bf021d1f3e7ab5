"""An instance of a container: one run of its program. They are numbered from 0, which is the count of restarts."""

from __future__ import annotations

import msgspec


class RunningInstance(msgspec.Struct, frozen=True):
    """An instance that runs."""

    attempt: int
    since: float
    hooked: bool = True
    """Whether its postStart hook is done, if it has one."""


class EndedInstance(msgspec.Struct, frozen=True):
    """An instance that ran, or could not be started."""

    attempt: int
    code: int
    started: float
    finished: float
    signal: int = 0
    reason: str = ""
    message: str = ""
    lost: bool = False
    """Whether it ended with the machine: what it had done besides writing to disks went with it."""

    @property
    def well(self) -> bool:
        return self.code == 0
