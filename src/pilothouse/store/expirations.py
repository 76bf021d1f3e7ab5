"""Keys that expire.

    expirations = Expirations(expire, clock=time.time)
    expirations.add("/events/t/a", revision=17, at=time.time() + 3600)

A timer calls ``expire(key, revision)``; the store deletes the key if it still has that revision, so rewritten
keys need no cancellation. Times are wall clock, as they outlive the process; the timer checks at least once a
minute, to notice a changed clock.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

_LOOK_AT_LEAST_EVERY = 60.0


class Expirations:
    def __init__(self, expire: Callable[[str, int], None], *, clock: Callable[[], float]) -> None:
        self._expire = expire
        self._clock = clock
        self._heap: list[tuple[float, int, str]] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: str, revision: int, at: float) -> None:
        heapq.heappush(self._heap, (at, revision, key))
        if self._heap[0][1] == revision:
            self._arm()

    def stop(self) -> None:
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            wait = min(max(self._heap[0][0] - self._clock(), 0.0), _LOOK_AT_LEAST_EVERY)
            self._timer = asyncio.get_running_loop().call_later(wait, self._sweep)

    def _sweep(self) -> None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            _, revision, key = heapq.heappop(self._heap)
            self._expire(key, revision)
        self._arm()
