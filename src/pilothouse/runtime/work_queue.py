"""The queue of keys to reconcile.

    queue = WorkQueue(group=lambda key: key.namespace)
    queue.add(key, priority=1)
    key = await queue.get()          # no other worker gets it until done
    queue.done(key)

A key is queued at most once; one that is added while a worker has it is queued again after ``done``. Higher
priorities come first; within a priority the groups take turns, so that a namespace with thousands of keys
does not delay another with one. A key has one timer, set by ``later`` or, with back-off, by ``failed``: the
earlier time counts.
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
    def __init__(self, *, group: Callable[[K], Hashable], retry: Backoff = RETRY) -> None:
        self._group = group
        self._retry = retry
        self._waiting: dict[int, OrderedDict[Hashable, deque[K]]] = {}
        self._queued: dict[K, int] = {}
        self._working: set[K] = set()
        self._again: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def idle(self) -> bool:
        """True if no key is queued or with a worker; timers may be set."""
        return not self._queued and not self._working

    @property
    def next_timer(self) -> float | None:
        """When the next timer fires, by the loop's clock."""
        return min((timer.when() for timer in self._timers.values()), default=None)

    def add(self, key: K, priority: int = 0) -> None:
        """Queue the key; if it is queued already, the higher priority counts."""
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
        """Queue the key after so many seconds, or sooner if it is added before."""
        loop = asyncio.get_running_loop()
        present = self._timers.get(key)
        if present is not None:
            if present.when() <= loop.time() + seconds:
                return
            present.cancel()
        self._timers[key] = loop.call_later(seconds, self._fire, key)

    def failed(self, key: K) -> float:
        """Queue the key after a back-off that grows with its failures in a row; returns the seconds."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        pause = self._retry.after(failures)
        self.later(key, pause)
        return pause

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def succeeded(self, key: K) -> None:
        """Reset the number of failures."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, which no other worker gets until ``done``. Its timer is cancelled."""
        while not self._queued:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Woken and cancelled at once: pass the wake-up on.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise
        key = self._next()
        del self._queued[key]
        self._working.add(key)
        if timer := self._timers.pop(key, None):
            timer.cancel()
        return key

    def done(self, key: K) -> None:
        self._working.discard(key)
        priority = self._again.pop(key, None)
        if priority is not None:
            self.add(key, priority)

    def forget(self, key: K) -> None:
        """The object is gone: drop the timer and the count of failures."""
        self._failures.pop(key, None)
        if timer := self._timers.pop(key, None):
            timer.cancel()

    def clear(self) -> None:
        """Drop all keys and timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
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
                groups[group] = keys  # at the end: the other groups come first
            elif not groups:
                del self._waiting[level]
            # A key whose priority was raised is queued at the higher level too, and was taken there.
            if self._queued.get(key) == level:
                return key

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
