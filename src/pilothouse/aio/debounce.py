"""A debouncer: runs a function soon after a request, at most once an interval.

tick = Debouncer(flush, interval=0.002)
tick.poke()   # flush() runs in this turn of the loop, unless it ran less than 2 ms ago
tick.poke()   # scheduled already: no effect
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Debouncer:
    """Runs ``act`` after a ``poke``: at once when idle, so that latency grows only under load."""

    __slots__ = ("_act", "_handle", "_interval", "_last")

    def __init__(self, act: Callable[[], None], interval: float) -> None:
        self._act = act
        self._interval = interval
        self._handle: asyncio.Handle | None = None
        self._last = float("-inf")

    def poke(self) -> None:
        if self._handle is not None:
            return
        loop = asyncio.get_running_loop()
        due = self._last + self._interval
        if loop.time() >= due:
            self._handle = loop.call_soon(self._run)
        else:
            self._handle = loop.call_at(due, self._run)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(self) -> None:
        self._handle = None
        self._last = asyncio.get_running_loop().time()
        self._act()
