"""Catching up with a long history by several watchers of one stream, each a stretch ahead of the other.

    relay = HistoryReplay()
    relay.set_out(position=1, current=3500)     # [(1, 1002), (2, 2002), (3, 3002)]: watchers to start, and where
    relay.began(1)                              # etcd has announced it
    relay.take(2, events)                       # []: kept, it is not this watcher's turn
    relay.take(0, events)                       # the events: it is
    relay.pass_on(1001)                         # ([...], [0]): what watcher 1 has brought so far; the first can stop

etcd serves a watcher that is behind a thousand revisions every tenth of a second, however little there is to do; so ten
thousand take one watcher a second, and ten of them hardly longer than one stretch. One watcher *runs*: what it brings
counts. The others' events are kept. Every watcher brings everything from its start on, so as soon as the runner has
come to the start of the next one, that one can run in its place, with nothing missed and nothing to compare. If the next
one is late, the runner just runs on.

A watcher runs only once it was announced. What it finds before that is held back by etcd, but a mark for the whole stream
is not, and would be taken for the word that there was nothing; and one that etcd refuses is never announced at all.
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
        """Which watchers to start, and at which revision, if ``position`` is far behind and nobody is ahead."""
        if self._starts or current - position < 2 * STRETCH:
            return []
        for start in range(position + 1 + STRETCH, current + 1, STRETCH)[:MOST]:
            self._last += 1
            self._starts[self._last] = start
            self._held[self._last] = []
        return list(self._starts.items())

    def began(self, watcher: int) -> None:
        """etcd has announced it: from here on, what it brings is in order with everything else."""
        self._announced.add(watcher)

    def take(self, watcher: int, events: Sequence[Any]) -> Sequence[Any]:
        """What counts of a watcher's events."""
        if watcher == self.runner:
            return events
        if watcher in self._held:
            self._held[watcher].extend(events)
        return ()

    def pass_on(self, position: int) -> tuple[list[Any], list[int]]:
        """Let the furthest watcher run whose start has been reached: the events that it holds, and who can stop."""
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
