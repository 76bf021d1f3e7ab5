"""A collection kept in memory and up to date, which reports changes.

    informer = Informer(api, Pod, Random(), SystemClock(), namespace="default")
    informer.subscribe(lambda difference: queue.add(difference))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await informer.synced()
        informer.cache.list("default")

Subscribers are called in order after the cache has changed; a relist takes effect in one step and is reported
as differences, while other tasks run in between. ``until`` waits for the cache to reach a revision, to read
one's own writes; with a selector, writes out of view are seen with the next bookmark, within a minute or so.
``heard`` is the interval in which no change can have been missed; it restarts after each gap and each pause
longer than a live server's.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
from collections.abc import Callable, Mapping
from itertools import count
from random import Random

from pilothouse.aio.cooperative import yielding
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Trees
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.object_cache import CacheChange, IndexFunction, ObjectCache
from pilothouse.client.watch_freshness import NOTHING, WatchFreshness
from pilothouse.client.watch_machine import Applied, Change, Deleted, Marked, Restarted
from pilothouse.client.watcher import WatchRunner

Subscriber = Callable[[CacheChange], None]

log = logging.getLogger(__name__)


class Informer:
    def __init__(
        self,
        api: Api,
        noun: KindName,
        rng: Random,
        clock: Clock,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction] | None = None,
        streaming: bool = True,
        partial: bool = False,
        optional: bool = False,
        trees: Trees | None = None,
    ) -> None:
        """``partial`` keeps metadata only. A kind that is ``optional`` counts as filled, and has no objects,
        while the server does not serve it. ``trees`` is shared by caches with a common bound; the default is
        private."""
        self.noun = noun
        self.cache = ObjectCache(indexes)
        self._watcher = WatchRunner(
            api,
            noun,
            rng,
            trees or Trees(),
            namespace=namespace,
            labels=labels,
            fields=fields,
            streaming=streaming,
            partial=partial,
            optional=optional,
        )
        self._clock = clock
        self._subscribers: list[Subscriber] = []
        self._followers: list[Callable[[], None]] = []
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._synced = asyncio.Event()
        self._revision = 0
        self._as_of = -math.inf
        self._heard = NOTHING
        self._beginnings = 0

    @property
    def heard(self) -> WatchFreshness:
        """The interval in which every change was received."""
        return self._heard

    @property
    def as_of(self) -> float:
        """When the list that last filled the cache was started, by the loop's clock."""
        # Of a kind that is not served there is nothing to miss.
        return math.inf if self._watcher.is_missing else self._as_of

    @property
    def revision(self) -> int:
        """Up to which revision the cache has everything; 0 before the first list."""
        return self._revision

    @property
    def problem(self) -> str:
        """Why the cache may be behind; empty while all is well."""
        return self._watcher.problem

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    def seen(self, revision: int) -> bool:
        """Whether the cache has everything up to this revision."""
        return self._synced.is_set() and self._revision >= revision

    def subscribe(self, subscriber: Subscriber, *, replay: bool = True) -> Callable[[], None]:
        """Call back for each change, and for present objects unless disabled. Returns the unsubscribe
        function."""
        self._subscribers.append(subscriber)
        if replay:
            for obj in self.cache.list():
                self._notify(subscriber, CacheChange(None, obj))
        return lambda: self._subscribers.remove(subscriber)

    def follow(self, advanced: Callable[[], None]) -> Callable[[], None]:
        """Call back when the cache has advanced, after the changes. Returns the unsubscribe function."""
        self._followers.append(advanced)
        return lambda: self._followers.remove(advanced)

    def restart(self) -> None:
        """List again. The cache is kept until then."""
        self._watcher.restart()

    async def synced(self) -> None:
        await self._synced.wait()

    async def until(self, revision: int) -> None:
        """Wait until the cache has everything up to this revision."""
        if self.seen(revision):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._order), future))
        await future

    async def run(self) -> None:
        await self._watcher.run(self._take)

    async def _take(self, changes: list[Change]) -> None:
        now = self._clock.now()
        self._hear(now)
        for change in changes:
            match change:
                case Restarted(objects, revision):
                    for obj in objects:
                        obj.arrived = now
                    began = self._watcher.began
                    differences = await self.cache.replace(objects)
                    self._revision = revision
                    self._as_of = began
                    await yielding(differences, self._publish)
                    self._synced.set()
                case Applied(obj):
                    obj.arrived = now
                    self._revision = obj.revision
                    self._publish(self.cache.put(obj))
                case Deleted(obj):
                    self._revision = obj.revision
                    self._publish(self.cache.remove(obj))
                case Marked(revision):
                    self._revision = revision
        while self._waiting and self._waiting[0][0] <= self._revision:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)
        for advanced in tuple(self._followers):
            advanced()

    def _hear(self, now: float) -> None:
        unbroken = self._beginnings == self._watcher.beginnings
        self._beginnings = self._watcher.beginnings
        self._heard = (self._heard if unbroken else NOTHING).again(now)

    def _publish(self, difference: CacheChange | None) -> None:
        if difference is not None:
            for subscriber in tuple(self._subscribers):
                self._notify(subscriber, difference)

    def _notify(self, subscriber: Subscriber, difference: CacheChange) -> None:
        try:
            subscriber(difference)
        except Exception:
            # One that fails must not keep the others, or the cache, from going on.
            log.exception("a subscriber of %s failed on %s", self.noun.resource, difference)
