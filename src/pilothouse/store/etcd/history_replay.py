"""Catches up with a long history by several watchers on one stream, at staggered revisions.

    relay = HistoryReplay()
    relay.set_out(position=1, current=3500)     # [(1, 1002), (2, 2002), (3, 3002)]: watchers to start
    relay.began(1)                              # etcd has announced it
    relay.take(2, events)                       # []: kept, it is not this watcher's turn
    relay.take(0, events)                       # the events: it is
    relay.pass_on(1001)                         # ([...], [0]): events of watcher 1; watcher 0 can stop

etcd sends a watcher that is behind a thousand revisions per 100 ms, so ten watchers are ten times as fast.
One watcher *runs*: its events count; the others' are kept. Each watcher has everything from its start on, so
once the runner reaches the start of the next, that one takes over without a gap. A watcher runs only after
etcd has announced it: before that its events are held back while progress of the whole stream is not, and a
refused one is never announced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

STRETCH = 1000
"""As many revisions as etcd sends a watcher at a time."""
MOST = 10
"""Watchers ahead of the runner: what they bring is held in memory."""


class HistoryReplay:
    """The watchers of one stream; the first has the number 0."""

    def __init__(self) -> None:
        self.runner = 0
        self._starts: dict[int, int] = {}
        """Where those ahead have started, in order."""
        self._held: dict[int, list[Any]] = {}
        self._announced: set[int] = set()
        self._last = 0

    def set_out(self, position: int, current: int) -> list[tuple[int, int]]:
        """Which watchers to start, and at which revision, if ``position`` is far behind and none runs
        ahead."""
        if self._starts or current - position < 2 * STRETCH:
            return []
        for start in range(position + 1 + STRETCH, current + 1, STRETCH)[:MOST]:
            self._last += 1
            self._starts[self._last] = start
            self._held[self._last] = []
        return list(self._starts.items())

    def began(self, watcher: int) -> None:
        """etcd has announced it: from here on its events are in order."""
        self._announced.add(watcher)

    def take(self, watcher: int, events: Sequence[Any]) -> Sequence[Any]:
        """The events of a watcher that count now."""
        if watcher == self.runner:
            return events
        if watcher in self._held:
            self._held[watcher].extend(events)
        return ()

    def pass_on(self, position: int) -> tuple[list[Any], list[int]]:
        """Let the furthest watcher run whose start is reached: its kept events, and the watchers that can
        stop."""
        reached = [each for each, start in self._starts.items() if start <= position + 1]
        following = next((each for each in reversed(reached) if each in self._announced), None)
        if following is None:
            return [], []
        passed = reached[: reached.index(following)]
        stopping = [self.runner, *passed]
        events = self._held[following]
        for watcher in (*passed, following):
            del self._starts[watcher], self._held[watcher]
        self.runner = following
        return events, stopping

    def drop(self, watcher: int) -> None:
        """A watcher ahead has ended."""
        self._starts.pop(watcher, None)
        self._held.pop(watcher, None)
