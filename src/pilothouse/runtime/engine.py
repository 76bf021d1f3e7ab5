"""The engine runs one controller: a work queue, workers that reconcile its keys, and the caches that feed it.

    engine = Engine(controller, caches, executor, expectations, decision_log, clock)
    await engine.run(election.fence, election.since)   # until cancelled; raises LeadershipLost

* A key is reconciled by one worker at a time; a reconcile that fails, or whose writes conflict, is retried
  with back-off and blocks no other key.
* A key is reconciled when the caches show what its last reconcile wrote; with a ``serial`` controller, what
  any reconcile wrote.
* Reconciling starts when the caches have been listed since this process became leader, so that the last
  leader's writes are in view. Caches are followed while another process leads, for a quick takeover.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Protocol

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
from pilothouse.runtime.reconcile_condition import intents_after_error, intents_with_condition
from pilothouse.runtime.reconcile_result import ExecutedIntent, ReconcileResult
from pilothouse.runtime.sampled_watch import SampledWatch
from pilothouse.runtime.snapshot import KindView, Snapshot
from pilothouse.runtime.work_queue import WorkQueue

DECISIONS_PER_TURN = 16
"""Decisions before a worker yields to the event loop: the lease must be renewed while thousands are taken."""
LIVE = 1
"""The priority of changes, over the objects that were there when the engine started."""

Changed = Callable[[Object | None, Object | None], None]
"""Called with an object before and after a change; both are None when the cache has advanced without one."""

log = logging.getLogger(__name__)


class EngineCache(KindView, Protocol):
    """A cache of one kind that follows the server."""

    @property
    def revision(self) -> int: ...

    @property
    def as_of(self) -> float:
        """When the list that last filled it was started, by the loop's clock."""
        ...

    def restart(self) -> None:
        """List everything again."""
        ...

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        """Call back on every change from here on, until the returned function is called."""
        ...


class Executor(Protocol):
    """Executes intents."""

    async def execute(
        self, intents: Iterable[Intent], seen: Object, key: ReconcileKey, fence: FenceOf
    ) -> tuple[ExecutedIntent, ...]:
        """Return the outcome of each intent. Raises ``LeadershipLost`` once another process leads."""
        ...


class DecisionSink(Protocol):
    def note(
        self, controller: Controller, seen: Object, world: Snapshot, result: ReconcileResult, attempts: int
    ) -> None: ...

    def forget(self, controller: Controller, key: ReconcileKey) -> None: ...


class Engine:
    def __init__(
        self,
        controller: Controller,
        caches: Callable[[], Mapping[KindName, EngineCache]],
        executor: Executor,
        expectations: Expectations,
        decision_log: DecisionSink,
        clock: Clock,
        watch: SampledWatch | None = None,
    ) -> None:
        """``caches`` returns those of the controller's kinds, which may be more later for ``EVERY`` kind;
        ``watch`` is what measures its objects."""
        self.controller = controller
        self.counters = EngineCounters()
        self._caches = caches
        self._executor = executor
        self._expectations = expectations
        self._decision_log = decision_log
        self._clock = clock
        self._watch = watch
        self._scope = ReconcileKey(controller.primary, "", "")
        """The key under which a serial controller's writes are expected: all of its decisions share it."""
        self.queue: WorkQueue[ReconcileKey] = WorkQueue(group=lambda key: key.namespace)
        self.parked: dict[KindName, dict[ReconcileKey, None]] = {}
        """The keys that wait for a cache to catch up, by its kind."""
        self.is_running = False
        """True while it runs."""
        self.handled = 0
        """How many keys the workers have reconciled or parked so far."""
        self._mappers = EventMappers(
            controller, world=self._world, add=self.queue.add, counters=self.counters, note=decision_log.note
        )
        self._advanced = asyncio.Event()
        self._followed: dict[KindName, Callable[[], None]] = {}
        self._subscribing = 0

    @property
    def idle(self) -> bool:
        """True if there is nothing to reconcile now; keys may be due later."""
        return self.queue.idle and not self._subscribing and not any(self.parked.values())

    async def run(self, fence: FenceOf, since: float) -> None:
        """Reconcile until cancelled, on caches listed after ``since``. Raises ``LeadershipLost``."""
        self.is_running = True
        try:
            await self._subscribe_all()
            await self._filled(since)
            workers = range(self.controller.workers)
            await together({f"{self.controller.name} {number}": self._work(fence) for number in workers})
        finally:
            self.is_running = False
            for unsubscribe in self._followed.values():
                unsubscribe()
            self._followed.clear()
            self._mappers.clear()
            self.queue.clear()
            self.parked.clear()
            self._expectations.clear()

    async def follow(self) -> None:
        """While it runs, subscribe to kinds that the server began to serve, and drop those it has no more."""
        caches = self._caches() if self.is_running else {}
        for noun in [noun for noun in self._followed if noun not in caches]:
            self._followed.pop(noun)()
            self._unpark(noun)
            self._advanced.set()
        if self.is_running:
            await self._subscribe_all()

    async def _subscribe_all(self) -> None:
        self._subscribing += 1
        try:
            for noun in tuple(self._caches()):
                cache = self._caches().get(noun)
                if cache is not None and noun not in self._followed:
                    await self._subscribe(noun, cache)
                # There may be thousands of each: yield to the event loop.
                await asyncio.sleep(0)
        finally:
            self._subscribing -= 1

    async def _subscribe(self, noun: KindName, cache: EngineCache) -> None:
        handle = self._handler(noun)
        end = self._followed[noun] = cache.subscribe(partial(handle, LIVE))

        def enqueue(one: Object) -> None:
            # The term may be over by now, or the kind gone.
            if self._followed.get(noun) is end:
                handle(0, None, one)

        # Existing objects have a lower priority than changes.
        await yielding(cache.list(), enqueue)

    def _handler(self, noun: KindName) -> Callable[[int, Object | None, Object | None], None]:
        controller = self.controller
        primary = noun == controller.primary or controller.primary == EVERY
        owned = noun in controller.owns
        mapper: Mapper | None = controller.also.get(noun) or controller.also.get(EVERY)

        def handle(priority: int, before: Object | None, after: Object | None) -> None:
            self._advanced.set()
            self._unpark(noun)
            if before is not None and after is not None and not controller.predicate(before, after):
                return
            for one in (before, after):
                if one is None:
                    continue
                if primary:
                    self.queue.add(ReconcileKey(noun, one.namespace, one.name), priority)
                if owned and (owner := one.controller) is not None:
                    self._add_owner(one.namespace, owner, priority)
                if mapper is not None:
                    self._mappers.map(mapper, one, priority)

        return handle

    def _unpark(self, noun: KindName) -> None:
        for key in self.parked.pop(noun, ()):
            self.queue.add(key, LIVE)

    def _add_owner(self, namespace: str, owner: Mapping[str, Any], priority: int) -> None:
        primary = self.controller.primary
        if owner["kind"] == primary.kind and owner["apiVersion"].rpartition("/")[0] == primary.group:
            key = ReconcileKey(primary, namespace if primary.namespaced else "", owner["name"])
            self.queue.add(key, priority)

    def _world(self) -> Snapshot:
        return self._snapshot(self._caches())

    def _snapshot(self, caches: Mapping[KindName, EngineCache]) -> Snapshot:
        readings = self._watch.readings if self._watch is not None else None
        return Snapshot(caches, now=self._clock.now(), readings=readings)

    async def _work(self, fence: FenceOf) -> None:
        while True:
            if self.controller.serial:
                await self._caught_up()
            key = await self.queue.get()
            try:
                await self._decide(key, fence)
            finally:
                self.queue.done(key)
            self.handled += 1
            if self.handled % DECISIONS_PER_TURN == 0:
                # A decision to do nothing never awaits.
                await asyncio.sleep(0)

    async def _filled(self, since: float) -> None:
        for cache in self._older(since):
            cache.restart()
        while self._older(since):
            self._advanced.clear()
            await self._advanced.wait()

    def _older(self, since: float) -> list[EngineCache]:
        return [cache for cache in self._caches().values() if cache.as_of < since]

    async def _caught_up(self) -> None:
        while self._expectations.missing(self._scope, self._caches()):
            self._advanced.clear()
            await self._advanced.wait()

    async def _decide(self, key: ReconcileKey, fence: FenceOf) -> None:
        caches = self._caches()
        missing = frozenset() if self.controller.serial else self._expectations.missing(key, caches)
        if missing:
            for noun in missing:
                self.parked.setdefault(noun, {})[key] = None
            return
        cache = caches.get(key.noun)
        seen = cache.get(key.namespace, key.name) if cache is not None else None
        if seen is None:
            self.queue.forget(key)
            self._decision_log.forget(self.controller, key)
            return
        began = perf_counter()
        world = self._snapshot(caches)
        result = await self._result(key, seen, world, fence)
        self.counters.count(result, perf_counter() - began)
        if result.failure or result.refused:
            pause = self.queue.failed(key)
            level = logging.WARNING if result.failure else logging.DEBUG
            problem = result.failure or "an object has changed since it was read"
            log.log(level, "%s: %s: %s; retrying in %gs", self.controller.name, key, problem, pause)
        else:
            self.queue.succeeded(key)
            if result.again is not None:
                self.queue.later(key, max(0.0, result.again))
        if not result.refused:
            self._decision_log.note(self.controller, seen, world, result, self.queue.failures(key))

    async def _result(
        self, key: ReconcileKey, seen: Object, world: Snapshot, fence: FenceOf
    ) -> ReconcileResult:
        controller, error = self.controller, ""
        try:
            intents = intents_with_condition(controller(seen, world), seen, controller, now=world.now)
        except Exception as problem:
            log.exception("%s: reconciling %s failed", controller.name, key)
            error = f"{type(problem).__name__}: {problem}"
            intents = intents_after_error(error, seen, controller, now=world.now)
        writer = self._scope if controller.serial else key
        return ReconcileResult(await self._executor.execute(intents, seen, writer, fence), error)
