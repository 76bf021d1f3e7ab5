"""The watch cache: all objects in memory, kept current by one watch on the store.

    cache = WatchCache(store, catalog, clock, rng)
    task = asyncio.create_task(cache.run())
    await cache.fresh()                      # now it shows every write that was acknowledged before this call
    cache.get("pods", "/registry/pods/t/a")

* It holds every change up to ``revision`` and none above. Listeners get each change once, in order. If the
  store's history is compacted meanwhile, it lists again and notifies the listeners.
* ``/registry/<plural>/…`` is a core kind's key, ``/registry/<group>/<plural>/…`` any other's. A group has a
  dot or is in the catalog, so objects of an unserved CRD have their place too.
* It starts by listing an earlier revision and replaying the changes since, so watchers can resume after a
  restart.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Protocol

from pilothouse.aio.ring_buffer import Bounds
from pilothouse.aio.shared_call import SharedCall
from pilothouse.apiserver.discovery.catalog import ROOT, KindCatalog
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.items import Derive, Item
from pilothouse.base.clock import Clock
from pilothouse.meta import errors
from pilothouse.store.interface import Batch, Compacted, FutureRevision, Store, StoreError

PATIENCE = 3.0
"""Seconds that a read waits for the cache to catch up."""
REPLAY = 10_000
"""So many revisions of the past are read again at the start."""
GATHERINGS = 2
"""Lists of a past state that are put together at a time."""
_PAGE = 1000
_FIRST_NUDGE, _NUDGE = 0.005, 0.1
_BACKOFF = (0.05, 5.0)

log = logging.getLogger(__name__)


class CacheListener(Protocol):
    """Follows the changes of a cache."""

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        """A change is in the collection; its batch may not be complete yet."""

    def advanced(self) -> None:
        """A batch is complete; ``cache.revision`` has moved."""

    def broken(self) -> None:
        """The cache was listed again: changes since the last ``advanced`` are unknown."""


class WatchCache:
    def __init__(
        self, store: Store, catalog: KindCatalog, clock: Clock, rng: Random, *, bounds: Bounds | None = None
    ) -> None:
        self.store = store
        self.revision = 0
        self.gathering = asyncio.Semaphore(GATHERINGS)
        """Held while a state that is not in the cache is read from the store."""
        self._filled = asyncio.Event()
        self._catalog = catalog
        self._clock = clock
        self._rng = rng
        self._bounds = bounds or Bounds()
        self._collections: dict[str, Collection] = {}
        self._listeners: list[CacheListener] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._latest = SharedCall(self._ask_latest)
        self._horizon = 0
        self._target = 0
        self._stale = True
        self._following = False
        self._follower: asyncio.Task[None] | None = None
        self._groups: frozenset[str] = frozenset()
        catalog.on_change(self._learn_groups)
        self._learn_groups()

    @property
    def ready(self) -> bool:
        """True once the first listing is complete."""
        return self._filled.is_set()

    # What is here

    def get(self, path: str, key: str) -> Item | None:
        collection = self._collections.get(path)
        return collection.items.get(key) if collection is not None else None

    def peek(self, key: str) -> Item | None:
        """An item by its key alone."""
        return self.get(self.path_of(key), key)

    def collection(self, path: str) -> Collection:
        """The items below a path; an empty collection if there are none."""
        found = self._collections.get(path)
        if found is None:
            found = self._collections[path] = Collection(path, self._horizon, self._bounds)
        return found

    def collections(self) -> list[Collection]:
        return list(self._collections.values())

    def path_of(self, key: str) -> str:
        first, _, rest = key[len(ROOT) :].partition("/")
        if "." in first or first in self._groups:
            return f"{first}/{rest.partition('/')[0]}"
        return first

    def reshape(self, path: str, derive: Derive | None) -> None:
        """Serve a resource's items by another schema."""
        self.collection(path).reshape(derive)

    def listen(self, listener: CacheListener) -> None:
        self._listeners.append(listener)

    def check_ready(self) -> None:
        if not self.ready:
            raise errors.too_many_requests("storage is (re)initializing")

    async def filled(self) -> None:
        await self._filled.wait()

    # How current it is

    async def problem(self) -> str:
        """Why the cache may differ from the store, or empty."""
        if not self.ready:
            return "the first listing of the store is under way"
        if not self._following:
            return "the store's changes are not being followed"
        return "" if await self.fresh() else "changes in the store are not here yet"

    async def fresh(self) -> bool:
        """Wait until every write acknowledged before this call is in. False if that takes too long."""
        current = self.store.current
        if current is None:
            try:
                current = await self._latest()
            except (StoreError, TimeoutError):
                return False
        return current <= self.revision or await self.reached(current)

    async def reached(self, revision: int) -> bool:
        """Wait until the cache is at a revision. False if that takes too long."""
        if revision <= self.revision:
            return True
        loop = asyncio.get_running_loop()
        mark: asyncio.Future[None] = loop.create_future()
        waiter = (revision, mark)
        self._waiting.append(waiter)
        deadline = loop.time() + PATIENCE
        pause = _FIRST_NUDGE
        try:
            while (left := deadline - loop.time()) > 0:
                await asyncio.wait((mark,), timeout=min(pause, left))
                if mark.done():
                    return True
                # The change may be outside the root: then only a progress mark shows it.
                pause = _NUDGE
                await self._nudge(deadline - loop.time())
            return mark.done()
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    async def _ask_latest(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.store.revision()

    async def _nudge(self, left: float) -> None:
        try:
            await asyncio.wait_for(self.store.progress(), max(left, 0.001))
        except (StoreError, TimeoutError) as problem:
            log.debug("no progress mark: %s", problem)

    # How it is kept

    async def run(self) -> None:
        while True:
            self._follower = asyncio.create_task(self._follow())
            try:
                await asyncio.wait((self._follower,))
            finally:
                self._follower.cancel()
                await asyncio.gather(self._follower, return_exceptions=True)
            if not self._follower.cancelled():
                self._follower.result()

    def rebuild(self) -> None:
        """List the store again."""
        self._stale = True
        if self._follower is not None:
            self._follower.cancel()

    async def _follow(self) -> None:
        pause, longest = _BACKOFF
        while True:
            try:
                if self._stale:
                    await self._load()
                async with self.store.watch(ROOT, after=self.revision) as batches:
                    self._following = True
                    async for batch in batches:
                        self._take(batch)
                        pause = _BACKOFF[0]
                log.warning("the store ended its watch; it goes on from revision %d", self.revision)
            except (Compacted, FutureRevision) as problem:
                log.warning("the cache is listed anew: %s", problem)
                self._stale = True
            except StoreError as problem:
                log.warning("the store does not answer (%s); trying again", problem)
            except Exception:
                # Whatever went wrong, a cache that stands still would be worse: every read would wait for it.
                log.exception("the cache lost its way and is listed anew")
                self._stale = True
            finally:
                self._following = False
            await asyncio.sleep(pause * self._rng.uniform(0.5, 1.0))
            pause = min(pause * 2, longest)

    async def _load(self) -> None:
        latest = await self.store.revision()
        # Once watchers have seen this cache, an older state must not come back: then only the latest will do.
        start = 0 if self._target else max(latest - REPLAY, min(latest, 1))
        try:
            items, revision = await self._list(start)
        except Compacted:
            try:
                items, revision = await self._list(await self._oldest(start))
            except Compacted:
                items, revision = await self._list(0)
        sorted_out: dict[str, list[Item]] = {path: [] for path in self._collections}
        for item in items:
            sorted_out.setdefault(self.path_of(item.key), []).append(item)
        self.revision = self._horizon = revision
        self._target = max(latest, revision)
        for path, found in sorted_out.items():
            self.collection(path).reset(found, revision)
        self._stale = False
        for listener in self._listeners:
            listener.broken()
        self._arrive()

    async def _oldest(self, forgotten: int) -> int:
        """The oldest revision that can be read, or 0. A watch from a forgotten one fails, a list may not."""
        try:
            async with self.store.watch(ROOT, after=forgotten - 1) as batches:
                async for _ in batches:
                    break
        except Compacted as problem:
            return problem.oldest
        return 0

    async def _list(self, revision: int) -> tuple[list[Item], int]:
        """Everything as of a revision (0: the latest), and which one that is."""
        items: list[Item] = []
        after = ""
        while True:
            page = await self.store.list(ROOT, revision=revision, limit=_PAGE, after=after)
            items.extend(Item(entry.key, entry.revision, entry.value) for entry in page.entries)
            if not page.remaining:
                return items, page.revision
            revision, after = page.revision, page.entries[-1].key

    def _take(self, batch: Batch) -> None:
        now = self._clock.monotonic()
        folder = ""
        for change in batch.changes:
            # Changes come in runs of one kind, so where they belong is worked out once for a run.
            if not folder or not change.key.startswith(folder):
                collection = self.collection(self.path_of(change.key))
                folder = f"{ROOT}{collection.path}/"
            event = collection.apply(change.key, change.revision, change.value, now)
            if event is not None:
                self._notify(collection, event)
        self.revision = max(self.revision, batch.revision)
        self._arrive()

    def _notify(self, collection: Collection, event: CacheEvent) -> None:
        for listener in self._listeners:
            try:
                listener.happened(collection, event)
            except Exception:
                # One listener's fault is not the others'.
                log.exception("a change of %s was not taken in by %s", event.key, type(listener).__name__)

    def _arrive(self) -> None:
        """Wake the waiters for the current revision."""
        if self.revision >= self._target:
            self._filled.set()
        if self._waiting:
            still = []
            for revision, mark in self._waiting:
                if revision <= self.revision:
                    if not mark.done():
                        mark.set_result(None)
                elif not mark.done():
                    still.append((revision, mark))
            self._waiting = still
        for listener in self._listeners:
            listener.advanced()

    def _learn_groups(self) -> None:
        paths = (resource.path for resource in self._catalog)
        self._groups = frozenset(path.partition("/")[0] for path in paths if "/" in path)
