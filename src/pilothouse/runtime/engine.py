"""One controller at work: what changes is decided about, what is decided is done, what was done is seen before the next.

    engine = Engine(controller, caches, executor, expectations, decisions, clock)
    await engine.run(office.fence, office.since)   # until cancelled; raises Deposed when another leads

The caches go on while nobody leads, so that whoever takes over has them ready; an engine starts with everything there is,
and then follows what changes. A decision that fails, or that the world has overtaken, comes again after a pause that grows;
it holds up no other. Nothing is decided about a key while the caches lag behind what its last decision wrote; with a controller
that is ``serial``, while they lag behind what any decision wrote. Nor is anything decided before they have been filled since
the office was taken over: the watch of one who stands by may be late, and what the last leader wrote must be in view.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import Protocol

from pilothouse.aio.cooperative import yielding
from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.runtime.controller import EVERY, Controller, Mapper, ReconcileKey
from pilothouse.runtime.engine_counters import EngineCounters
from pilothouse.runtime.event_mappers import EventMappers
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intent_executor import FenceOf
from pilothouse.runtime.intents import Intent
from pilothouse.runtime.reconcile_result import ExecutedIntent, ReconcileResult
from pilothouse.runtime.runtime_conditions import broken, conditioned
from pilothouse.runtime.snapshot import KindView, Snapshot
from pilothouse.runtime.work_queue import WorkQueue

AT_A_STRETCH = 16
"""Decisions that are taken before others have their turn: the lease has to be renewed while thousands are."""
LIVE = 1
"""The priority of what has just changed, over what was there when the engine started."""

Changed = Callable[[Object | None, Object | None], None]
"""Told of an object before and after a change; both None when the cache has got on without one."""

log = logging.getLogger(__name__)


class EngineCache(KindView, Protocol):
    """The objects of one kind, followed."""

    @property
    def revision(self) -> int: ...

    @property
    def as_of(self) -> float:
        """When the reading was begun that last filled it, by the loop's clock."""
        ...

    def restart(self) -> None:
        """Have everything read anew."""
        ...

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        """Be told of every change from here on, until the function returned is called."""
        ...


class Executor(Protocol):
    """By which intents are carried out."""

    async def carry_out(
        self, intents: Iterable[Intent], seen: Object, key: ReconcileKey, fence: FenceOf
    ) -> tuple[ExecutedIntent, ...]:
        """What came of each. Raises ``Deposed`` once another leads."""
        ...


class DecisionSink(Protocol):
    """Where decisions are written down."""

    def note(
        self, controller: Controller, seen: Object, world: Snapshot, result: ReconcileResult, attempts: int
    ) -> None: ...

    def forget(self, controller: Controller, key: ReconcileKey) -> None: ...


class Engine:
    """One controller, and what is known of its work."""

    def __init__(
        self,
        controller: Controller,
        caches: Callable[[], Mapping[KindName, EngineCache]],
        actor: Executor,
        expectations: Expectations,
        journal: DecisionSink,
        clock: Clock,
    ) -> None:
        """``caches`` gives those of the controller's kinds; for one that cares for all kinds there may be more later."""
        self.controller = controller
        self.tally = EngineCounters()
        self._caches = caches
        self._actor = actor
        self._expectations = expectations
        self._journal = journal
        self._clock = clock
        self._scope = ReconcileKey(controller.primary, "", "")
        """Who wrote what a serial controller writes: all of its decisions together."""
        self._queue: WorkQueue[ReconcileKey] = WorkQueue(group=lambda key: key.namespace)
        self._mappers = EventMappers(
            controller, world=self._world, add=self._queue.add, tally=self.tally, journal=journal
        )
        self._parked: dict[KindName, dict[ReconcileKey, None]] = {}
        self._advanced = asyncio.Event()
        self._followed: dict[KindName, Callable[[], None]] = {}
        self._decides = False
        self._beginnings = 0
        self._taken = 0

    @property
    def decides(self) -> bool:
        """True while it has been told to."""
        return self._decides

    @property
    def taken(self) -> int:
        """Objects that were decided about, or put off, so far."""
        return self._taken

    @property
    def queue(self) -> WorkQueue[ReconcileKey]:
        return self._queue

    @property
    def idle(self) -> bool:
        """True if there is nothing to decide now; alarms may be set."""
        return self._queue.idle and not self._beginnings and not any(self._parked.values())

    @property
    def parked(self) -> Mapping[KindName, Collection[ReconcileKey]]:
        """The keys that wait for a cache to catch up, by its kind."""
        return self._parked

    async def run(self, fence: FenceOf, since: float) -> None:
        """Decide and act until cancelled, with all in view that was written before a moment. Raises ``Deposed``."""
        self._decides = True
        try:
            await self._take_up_all()
            await self._filled(since)
            workers = range(self.controller.workers)
            await together({f"{self.controller.name} {number}": self._work(fence) for number in workers})
        finally:
            self._decides = False
            for unsubscribe in self._followed.values():
                unsubscribe()
            self._followed.clear()
            self._mappers.clear()
            self._queue.clear()
            self._parked.clear()
            self._expectations.clear()

    async def follow(self) -> None:
        """Take up what there is, and hear of what changes, while it decides; also of kinds that have come since. Nobody waits
        for one that has gone."""
        caches = self._caches() if self._decides else {}
        for noun in [noun for noun in self._followed if noun not in caches]:
            self._followed.pop(noun)()
            self._unpark(noun)
            self._advanced.set()
        if self._decides:
            await self._take_up_all()

    async def _take_up_all(self) -> None:
        self._beginnings += 1
        try:
            for noun in tuple(self._caches()):
                cache = self._caches().get(noun)
                if cache is not None and noun not in self._followed:
                    await self._take_up(noun, cache)
                # There may be thousands of each, and others have to have their turn.
                await asyncio.sleep(0)
        finally:
            self._beginnings -= 1

    async def _take_up(self, noun: KindName, cache: EngineCache) -> None:
        hear = self._hearer(noun)
        end = self._followed[noun] = cache.subscribe(partial(hear, LIVE))

        def begin_with(one: Object) -> None:
            # The term may be over by now, or the kind gone.
            if self._followed.get(noun) is end:
                hear(0, None, one)

        # What is there may wait until what has just changed is decided about.
        await yielding(cache.list(), begin_with)

    def _hearer(self, noun: KindName) -> Callable[[int, Object | None, Object | None], None]:
        controller = self.controller
        primary = noun == controller.primary or controller.primary == EVERY
        owned = noun in controller.owns
        mapper: Mapper | None = controller.also.get(noun) or controller.also.get(EVERY)

        def hear(priority: int, before: Object | None, after: Object | None) -> None:
            self._advanced.set()
            self._unpark(noun)
            if before is not None and after is not None and not controller.heeds(before, after):
                return
            for one in (before, after):
                if one is None:
                    continue
                if primary:
                    self._queue.add(ReconcileKey(noun, one.namespace, one.name), priority)
                if owned and (owner := one.controller) is not None:
                    self._add_owner(one, owner["kind"], owner["apiVersion"], owner["name"], priority)
                if mapper is not None:
                    self._mappers.told(mapper, one, priority)

        return hear

    def _unpark(self, noun: KindName) -> None:
        for key in self._parked.pop(noun, ()):
            self._queue.add(key, LIVE)

    def _add_owner(self, one: Object, kind: str, api_version: str, name: str, priority: int) -> None:
        primary = self.controller.primary
        if kind == primary.kind and api_version.rpartition("/")[0] == primary.group:
            namespace = one.namespace if primary.namespaced else ""
            self._queue.add(ReconcileKey(primary, namespace, name), priority)

    def _world(self) -> Snapshot:
        return Snapshot(self._caches(), now=self._clock.now())

    async def _work(self, fence: FenceOf) -> None:
        while True:
            if self.controller.serial:
                await self._caught_up()
            key = await self._queue.get()
            try:
                await self._decide(key, fence)
            finally:
                self._queue.done(key)
            self._taken += 1
            if self._taken % AT_A_STRETCH == 0:
                # A decision to do nothing waits for nothing.
                await asyncio.sleep(0)

    async def _filled(self, since: float) -> None:
        """Wait until the caches have been filled since then."""
        for cache in self._older(since):
            cache.restart()
        while self._older(since):
            self._advanced.clear()
            await self._advanced.wait()

    def _older(self, since: float) -> list[EngineCache]:
        return [cache for cache in self._caches().values() if cache.as_of < since]

    async def _caught_up(self) -> None:
        """Wait until the caches have seen all that was written."""
        while self._expectations.missing(self._scope, self._caches()):
            self._advanced.clear()
            await self._advanced.wait()

    async def _decide(self, key: ReconcileKey, fence: FenceOf) -> None:
        caches = self._caches()
        missing = frozenset() if self.controller.serial else self._expectations.missing(key, caches)
        if missing:
            for noun in missing:
                self._parked.setdefault(noun, {})[key] = None
            return
        cache = caches.get(key.noun)
        seen = cache.get(key.namespace, key.name) if cache is not None else None
        if seen is None:
            self._queue.forget(key)
            self._journal.forget(self.controller, key)
            return
        began = perf_counter()
        world = Snapshot(caches, now=self._clock.now())
        result = await self._result(key, seen, world, fence)
        self.tally.count(result, perf_counter() - began)
        if result.failure or result.refused:
            pause = self._queue.failed(key)
            level = logging.WARNING if result.failure else logging.DEBUG
            log.log(level, "%s: %s: %s; again in %gs", self.controller.name, key, _trouble(result), pause)
        else:
            self._queue.succeeded(key)
            if result.again is not None:
                self._queue.later(key, max(0.0, result.again))
        if not result.refused:
            self._journal.note(self.controller, seen, world, result, self._queue.failures(key))

    async def _result(
        self, key: ReconcileKey, seen: Object, world: Snapshot, fence: FenceOf
    ) -> ReconcileResult:
        controller, error = self.controller, ""
        try:
            intents = conditioned(controller(seen, world), seen, controller, now=world.now)
        except Exception as problem:
            log.exception("%s: deciding about %s failed", controller.name, key)
            error = f"{type(problem).__name__}: {problem}"
            intents = broken(error, seen, controller, now=world.now)
        writer = self._scope if controller.serial else key
        return ReconcileResult(await self._actor.carry_out(intents, seen, writer, fence), error)


def _trouble(result: ReconcileResult) -> str:
    return result.failure or "the world has changed meanwhile"
