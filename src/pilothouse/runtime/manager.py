"""Controllers run together: one set of caches, one journal, one office.

    manager = Manager(api, [stateful_sets, garbage], informers, office, clock, identity="m1")
    await manager.run()                  # until cancelled

SharedCaches come first and go on while another leads; decisions begin when the caches are filled and the office is held. When it
ends, decisions stop first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pilothouse.aio.start_order import Ordered, StartGroup
from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import CustomResourceDefinition
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.discovery import discover
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.caches import SharedCaches
from pilothouse.runtime.controller import EVERY, Controller
from pilothouse.runtime.decision_log import DecisionLog
from pilothouse.runtime.decision_record import RecordAuthor
from pilothouse.runtime.dry_run import DryRunLog, NoopExecutor
from pilothouse.runtime.engine import Engine, Executor
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intent_executor import IntentExecutor
from pilothouse.runtime.leader_fence import LeaderFence

COMPONENT = "pilothouse-controller-manager"
_PATIENCE = 10.0
_LOOKING = 0.1
_SETTLING = 1.0
"""Seconds between the definition of a kind and the question which kinds there are."""

log = logging.getLogger(__name__)


class Manager:
    """The controllers of one process."""

    def __init__(
        self,
        api: Api,
        controllers: Sequence[Controller],
        informers: SharedInformers,
        office: LeaderFence,
        clock: Clock,
        *,
        identity: str,
        rehearsal: DryRunLog | None = None,
    ) -> None:
        """With a rehearsal, what would be done is told to it, and nothing is."""
        self._api = api
        self._informers = informers
        self._office = office
        self._every = any(EVERY in one.nouns for one in controllers)
        self._definitions = informers.get(CustomResourceDefinition, partial=True) if self._every else None
        self.caches = SharedCaches(informers, controllers)
        self.journal = rehearsal or DecisionLog(api, clock, stamp=RecordAuthor(identity), component=COMPONENT)
        self.engines = [self._engine(one, clock) for one in controllers]
        self._ready = asyncio.Event()
        self._started = asyncio.Event()

    @property
    def idle(self) -> bool:
        """True if there is nothing to decide or to write down, alarms aside."""
        return self._started.is_set() and self.journal.idle and all(engine.idle for engine in self.engines)

    @property
    def ready(self) -> bool:
        """True once the caches have been filled, so that this process can decide as soon as it may."""
        return self._ready.is_set()

    async def settled(self) -> None:
        """Wait until there is nothing to decide or to write down."""
        await self._started.wait()
        while True:
            # Engines take up what there is once they run, which is after they were started.
            await asyncio.sleep(_LOOKING)
            if self.idle:
                return

    async def run(self) -> None:
        """Follow, and decide while the office is held, until cancelled."""
        await Ordered(
            [
                StartGroup("caches", [self._follow], _PATIENCE, ready=self._filled),
                StartGroup("decisions", [lambda: self._office.hold(self._decide)], _PATIENCE),
            ]
        ).run()

    def _engine(self, controller: Controller, clock: Clock) -> Engine:
        expectations = Expectations()
        journal = self.journal
        hands: Executor = NoopExecutor()
        if isinstance(journal, DecisionLog):
            hands = IntentExecutor(
                self._api,
                manager=f"pilothouse-{controller.name}",
                noun_of=self.caches.noun_of,
                tell=journal.tell,
                expectations=expectations,
            )
        return Engine(controller, lambda: self.caches.of(controller), hands, expectations, journal, clock)

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
        """Kinds come and go with their definitions."""
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
                log.warning("which kinds there are can't be told, it is asked again: %s", problem)
                changed.set()

    async def _decide(self) -> None:
        self._started.set()
        fence, since = self._office.fence, self._office.since
        log.info("deciding: %s", ", ".join(engine.controller.name for engine in self.engines))
        parts = {engine.controller.name: engine.run(fence, since) for engine in self.engines}
        await together({"journal": self.journal.run(fence), **parts})
