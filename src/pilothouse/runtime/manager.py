"""The manager runs the controllers of a process: shared caches, one decision log, one election.

    manager = Manager(api, [stateful_sets, garbage], informers, election, clock, identity="m1")
    await manager.run()                  # until cancelled

Caches start first and keep running while another process leads. Controllers start when the caches are filled
and this process leads; on shutdown they stop first. *Observers* run beside them, under the same fence: they
answer in a status what controllers, which do no I/O, have asked there. *Watches* measure objects, and add
those that call for a decision to the queues of their controllers (``sampled_watch``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial

from pilothouse.aio.start_order import Ordered, StartGroup
from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import CustomResourceDefinition, KindName
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.discovery import discover
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.caches import SharedCaches
from pilothouse.runtime.controller import EVERY, Controller, ReconcileKey
from pilothouse.runtime.decision_log import DecisionLog
from pilothouse.runtime.dry_run import DryRunLog, NoopExecutor
from pilothouse.runtime.election import Election, LeadershipLost
from pilothouse.runtime.engine import LIVE, Engine, Executor
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intent_executor import FenceOf, IntentExecutor
from pilothouse.runtime.optional_kinds import ALL_SERVED, ServedAs
from pilothouse.runtime.sampled_watch import WatchFactory

COMPONENT = "pilothouse-controller-manager"
_STOP_SECONDS = 10.0
_POLL = 0.1
_OBSERVER_BACKOFF = Backoff(first=1.0, factor=2.0, longest=60.0)
_SETTLING = 1.0
"""Seconds between the change of a CustomResourceDefinition and discovery."""

Observer = Callable[[FenceOf], Coroutine[None, None, None]]
"""Runs until cancelled; each of its writes carries the fence that the function returns."""

log = logging.getLogger(__name__)


class Manager:
    def __init__(
        self,
        api: Api,
        controllers: Sequence[Controller],
        informers: SharedInformers,
        election: Election,
        clock: Clock,
        *,
        identity: str,
        observers: Mapping[str, Observer] | None = None,
        dry_run: DryRunLog | None = None,
        served_as: ServedAs = ALL_SERVED,
    ) -> None:
        """With ``dry_run``, intents are logged there and not executed, and observers do not run.
        ``served_as`` are optional kinds that the server lacks, or has in another version."""
        self._api = api
        self._informers = informers
        self._election = election
        self._observers = dict(observers or {}) if dry_run is None else {}
        self._every = any(EVERY in one.nouns for one in controllers)
        self._definitions = informers.get(CustomResourceDefinition, partial=True) if self._every else None
        self.caches = SharedCaches(informers, controllers, served_as)
        self.decision_log = dry_run or DecisionLog(api, clock, manager=identity, component=COMPONENT)
        factories = dict.fromkeys(one.sampled for one in controllers if one.sampled is not None)
        self._watches = {factory: factory(clock) for factory in factories}
        self.engines = [self._engine(one, clock) for one in controllers]
        self._ready = asyncio.Event()
        self._started = asyncio.Event()

    @property
    def idle(self) -> bool:
        """True if there is nothing to reconcile or to record now; keys may be due later."""
        parts = (self.decision_log, *self.engines, *self._watches.values())
        return self._started.is_set() and all(part.idle for part in parts)

    @property
    def ready(self) -> bool:
        """True once the caches are filled, so that this process can lead."""
        return self._ready.is_set()

    async def settled(self) -> None:
        """Wait until there is nothing to reconcile or to record."""
        await self._started.wait()
        while True:
            # Engines queue the existing objects once they run, which is after the start.
            await asyncio.sleep(_POLL)
            if self.idle:
                return

    async def run(self) -> None:
        """Run the caches, and the controllers while this process leads, until cancelled."""
        await Ordered(
            [
                StartGroup("caches", [self._follow], _STOP_SECONDS, ready=self._filled),
                StartGroup("decisions", [lambda: self._election.hold(self._decide)], _STOP_SECONDS),
            ]
        ).run()

    def _engine(self, controller: Controller, clock: Clock) -> Engine:
        expectations = Expectations()
        decision_log = self.decision_log
        executor: Executor = NoopExecutor()
        if isinstance(decision_log, DecisionLog):
            executor = IntentExecutor(
                self._api.impersonating(controller.impersonate),
                manager=f"pilothouse-{controller.name}",
                noun_of=self.caches.noun_of,
                record_event=decision_log.record_event,
                expectations=expectations,
            )
        return Engine(
            controller,
            lambda: self.caches.of(controller),
            executor,
            expectations,
            decision_log,
            clock,
            self._watches[controller.sampled] if controller.sampled is not None else None,
        )

    async def _follow(self) -> None:
        async with self._informers.running():
            if self._definitions is None:
                await asyncio.get_running_loop().create_future()
            else:
                await self._follow_kinds()

    async def _filled(self) -> None:
        if self._every:
            self.caches.know(await discover(self._api))
        await self._informers.synced()
        self._ready.set()

    async def _follow_kinds(self) -> None:
        """Discover kinds again whenever a CustomResourceDefinition changes."""
        changed = asyncio.Event()
        assert self._definitions is not None
        await self._definitions.synced()
        self._definitions.subscribe(lambda _: changed.set())
        while True:
            await changed.wait()
            await asyncio.sleep(_SETTLING)
            changed.clear()
            try:
                if self.caches.know(await discover(self._api)):
                    await self._informers.synced()
                    for engine in self.engines:
                        await engine.follow()
            except (StatusError, TransportError) as problem:
                log.warning("discovery failed, retrying: %s", problem)
                changed.set()

    async def _decide(self) -> None:
        self._started.set()
        fence, since = self._election.fence, self._election.since
        log.info("running controllers: %s", ", ".join(engine.controller.name for engine in self.engines))
        parts = {engine.controller.name: engine.run(fence, since) for engine in self.engines}
        observers = {name: _observed(name, observe, fence) for name, observe in self._observers.items()}
        watches = {
            f"watch {number}": _observed("a sampled watch", partial(self._measure, factory), fence)
            for number, factory in enumerate(self._watches)
        }
        await together({"decision_log": self.decision_log.run(fence), **parts, **observers, **watches})

    async def _measure(self, factory: WatchFactory, fence: FenceOf) -> None:
        engines = [engine for engine in self.engines if engine.controller.sampled is factory]
        caches = {noun: c for one in engines for noun, c in self.caches.of(one.controller).items()}

        def enqueue(noun: KindName, namespace: str, name: str) -> None:
            for engine in engines:
                if engine.controller.primary == noun:
                    engine.queue.add(ReconcileKey(noun, namespace, name), LIVE)

        await self._watches[factory].run(caches, enqueue)


async def _observed(name: str, observe: Observer, fence: FenceOf) -> None:
    """Run an observer; one that fails is started again, and does not end the controllers.

    What it reads comes from outside, from servers that may be hostile.
    """
    failures = 0
    while True:
        try:
            await observe(fence)
        except LeadershipLost:
            raise
        except Exception:
            failures += 1
            log.exception("%s has failed, and is started again", name)
        await asyncio.sleep(_OBSERVER_BACKOFF.after(max(1, failures)))
