"""Liveness of a child process: whether its event loop still runs, not only whether the process exists.

    heartbeat = Heartbeat(ours, Liveness(period=10.0), is_starting=lambda: health.state == "starting")
    silence = await heartbeat.hung()        # returns once the child has been silent for too long

The parent writes ``ASK`` to its end of a socket pair, once a period; the child's event loop answers with
``ANSWER`` (``parent_pipe``), which no load from clients can delay as at a port. A child may withhold its
answer if it runs but is useless, as a node that accepts no connections. After a period that took much longer
than it should (the parent was stopped, or the machine suspended or overloaded) counting starts again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

ASK, ANSWER = b"?", b"."


@dataclass(frozen=True)
class Liveness:
    """When a child counts as hung."""

    period: float = 10.0
    """Seconds between two probes; 0 disables them."""
    failures: int = 3
    """Unanswered probes in a row after which the child is hung."""
    startup: float = 120.0
    """Seconds without an answer after which a starting child is hung."""


class Heartbeat:
    def __init__(self, ours: socket.socket, liveness: Liveness, is_starting: Callable[[], bool]) -> None:
        self._ours = ours
        self._liveness = liveness
        self._is_starting = is_starting
        self._clock = time.monotonic

    async def hung(self) -> float:
        """Wait until the child is hung; returns the seconds of its silence."""
        period, missed = self._liveness.period, 0
        if not period:
            await asyncio.get_running_loop().create_future()
        while True:
            self._ask()
            asked = self._clock()
            await asyncio.sleep(period)
            if self._answered() or self._clock() - asked > 1.5 * period:
                missed = 0
                continue
            missed += 1
            if missed >= self._allowed():
                return missed * period

    def _allowed(self) -> float:
        if self._is_starting():
            return max(self._liveness.failures, self._liveness.startup / self._liveness.period)
        return self._liveness.failures

    def _ask(self) -> None:
        # A full buffer holds enough probes; a closed socket means that the child has exited.
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self._ours.send(ASK)

    def _answered(self) -> bool:
        try:
            return bool(self._ours.recv(4096))
        except (BlockingIOError, ConnectionError):
            return False
