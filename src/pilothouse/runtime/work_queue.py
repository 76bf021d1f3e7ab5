"""What is to be decided, and when.

    queue = WorkQueue(group=lambda key: key.namespace)
    queue.add(key, priority=1)
    key = await queue.get()          # nobody else gets it meanwhile
    queue.done(key)

A key waits here at most once, however often it is added, and is never in two hands: added while it is being worked on,
it comes again after ``done``. Keys of a higher priority come first; among equals the groups take turns, so that a
namespace with ten thousand keys does not keep another with one waiting. ``later`` sets a key's alarm (a key has one:
the earlier wins), and ``failed`` sets it by the number of failures in a row.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from pilothouse.base.backoff import Backoff

K = TypeVar("K", bound=Hashable)

RETRY = Backoff(first=0.05, factor=2.0, longest=300.0)
"""How long a key waits after its first, second, third failure in a row."""


class WorkQueue(Generic[K]):
    """Keys that wait to be worked on."""

    def __init__(self, *, group: Callable[[K], Hashable], retry: Backoff = RETRY) -> None:
        self._group = group
        self._retry = retry
        self._waiting: dict[int, OrderedDict[Hashable, deque[K]]] = {}
        self._queued: dict[K, int] = {}
        self._working: set[K] = set()
        self._again: dict[K, int] = {}
        self._alarms: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def idle(self) -> bool:
        """True if no key waits, is worked on, or has to be; alarms aside."""
        return not self._queued and not self._working

    @property
    def next_alarm(self) -> float | None:
        """When the next alarm goes off, by the loop's clock."""
        return min((alarm.when() for alarm in self._alarms.values()), default=None)

    def add(self, key: K, priority: int = 0) -> None:
        """Have the key worked on as soon as those of higher priority allow; added again, the higher one counts."""
        if key in self._working:
            self._again[key] = max(priority, self._again.get(key, priority))
            return
        present = self._queued.get(key)
        if present is not None and present >= priority:
            return
        self._queued[key] = priority
        groups = self._waiting.setdefault(priority, OrderedDict())
        groups.setdefault(self._group(key), deque()).append(key)
        if present is None:
            self._wake()

    def later(self, key: K, seconds: float) -> None:
        """Have the key worked on after a while, or sooner if something else asks for it."""
        loop = asyncio.get_running_loop()
        present = self._alarms.get(key)
        if present is not None:
            if present.when() <= loop.time() + seconds:
                return
            present.cancel()
        self._alarms[key] = loop.call_later(seconds, self._ring, key)

    def failed(self, key: K) -> float:
        """Have the key worked on after a pause that grows with its failures in a row; tells how long that is."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        pause = self._retry.after(failures)
        self.later(key, pause)
        return pause

    def failures(self, key: K) -> int:
        """How often in a row the key has failed."""
        return self._failures.get(key, 0)

    def succeeded(self, key: K) -> None:
        """The next failure is the first again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; it is the caller's until ``done``. Its alarm is off: who works on it sets the next."""
        while not self._queued:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                # Woken and cancelled at once: the wake-up belongs to somebody else.
                if taker.done() and not taker.cancelled():
                    self._wake()
                raise
        key = self._next()
        del self._queued[key]
        self._working.add(key)
        if alarm := self._alarms.pop(key, None):
            alarm.cancel()
        return key

    def done(self, key: K) -> None:
        """The key is nobody's again."""
        self._working.discard(key)
        priority = self._again.pop(key, None)
        if priority is not None:
            self.add(key, priority)

    def forget(self, key: K) -> None:
        """There is nothing left to decide about: no alarm, no count of failures."""
        self._failures.pop(key, None)
        if alarm := self._alarms.pop(key, None):
            alarm.cancel()

    def clear(self) -> None:
        """Forget all that waits, and every alarm."""
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        self._failures.clear()
        self._waiting.clear()
        self._queued.clear()
        self._again.clear()

    def _next(self) -> K:
        while True:
            level = max(self._waiting)
            groups = self._waiting[level]
            group, keys = groups.popitem(last=False)
            key = keys.popleft()
            if keys:
                groups[group] = keys  # to the end: the others have their turn first
            elif not groups:
                del self._waiting[level]
            # One whose priority was raised since stands at a higher level too, where it was taken before.
            if self._queued.get(key) == level:
                return key

    def _ring(self, key: K) -> None:
        self._alarms.pop(key, None)
        self.add(key)

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
