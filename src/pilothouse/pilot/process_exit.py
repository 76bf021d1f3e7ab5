"""How a database exited, for messages and for the Pilot's status.

exit = DatabaseExit(time=now, clean=False, signal="SIGKILL", out_of_memory=True, log=("...",))
exit.sentence        # "it was killed by SIGKILL, out of memory: raise the memory limit, or lower the heap"
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable
from pathlib import Path

import msgspec

from pilothouse.api.navigator.database_exit import ending
from pilothouse.api.objects import Tree
from pilothouse.base.error_lines import error_lines
from pilothouse.base.rfc3339 import format_time

_LONGEST_LINE = 500
_COUNTS = (
    (Path("/sys/fs/cgroup/memory.events"), "oom_kill"),
    (Path("/sys/fs/cgroup/memory/memory.oom_control"), "oom_kill"),
)
"""Where the kernel counts OOM kills, in cgroups v2 and v1, as seen from inside a container."""


class DatabaseExit(msgspec.Struct, frozen=True):
    time: float
    clean: bool
    code: int | None = None
    signal: str = ""
    out_of_memory: bool = False
    log: tuple[str, ...] = ()
    """The last lines it wrote."""
    message: str = ""
    """The error lines among them; empty after a clean exit."""

    @property
    def sentence(self) -> str:
        return ending(self.tree())

    def tree(self) -> Tree:
        """For ``status.lastExit``."""
        found: Tree = {"time": format_time(self.time), "clean": self.clean}
        if self.code is not None:
            found["exitCode"] = self.code
        if self.signal:
            found["signal"] = self.signal
        if self.out_of_memory:
            found["outOfMemory"] = True
        if self.message:
            found["message"] = self.message
        if self.log and not self.clean:
            found["log"] = [line[:_LONGEST_LINE] for line in self.log]
        return found


def classify_exit(
    returncode: int,
    *,
    asked_by: int | None,
    clean_codes: Iterable[int],
    now: float,
    log: Iterable[str] = (),
    said: Iterable[str] = (),
    noise: tuple[str, ...] = (),
    out_of_memory: bool = False,
) -> DatabaseExit:
    """``returncode`` as ``subprocess`` has it (negative for a signal). ``asked_by``: the signal of the stop
    request; ``said``: the last lines without stack frames; ``noise``: parts of useless lines."""
    by_signal = -returncode if returncode < 0 else 0
    clean = asked_by is not None and (by_signal == asked_by or returncode in (*clean_codes, 128 + asked_by))
    return DatabaseExit(
        time=now,
        clean=clean,
        code=None if by_signal else returncode,
        signal=signal.Signals(by_signal).name if by_signal else "",
        out_of_memory=out_of_memory and by_signal == signal.SIGKILL,
        log=tuple(log),
        # A killed process has no time to write why.
        message="" if clean or by_signal == signal.SIGKILL else error_lines(said, noise=noise),
    )


def memory_kills() -> int:
    """How many processes of this container the OOM killer has ended so far."""
    for file, key in _COUNTS:
        with contextlib.suppress(OSError):
            for line in file.read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == key:
                    return int(count)
    return 0
