"""The decision log writes Decisions and events to the API, apart from reconciling.

    decision_log = DecisionLog(api, clock, manager="m1", component="manager")
    await decision_log.run(fence)               # until cancelled
    decision_log.note(controller, seen, world, result, attempts)
    decision_log.record_event(about, "SuccessfulCreate", "created pod web-0", False)

No controller waits for it. The latest of each decision is written when no other has come for ``PAUSE``
seconds, or after ``LONGEST_PAUSE``. A write that fails is retried; a full queue drops the oldest events. The
recorded decisions are read once, so that an unchanged decision is not written again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from itertools import islice

from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import CoreEvent, Decision
from pilothouse.api.objects import Object, Tree
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.fence import FENCED, LeadershipFence
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.controller import Controller, ReconcileKey
from pilothouse.runtime.decision_record import (
    carried_on,
    gist,
    is_idle,
    outcome_of,
    record,
    record_name,
    worth_writing,
)
from pilothouse.runtime.election import LeadershipLost
from pilothouse.runtime.event_recorder import MANAGER, EventCorrelator, EventSource, EventWrite
from pilothouse.runtime.intents import Delete
from pilothouse.runtime.reconcile_result import ReconcileResult
from pilothouse.runtime.snapshot import Snapshot

PAUSE = 0.5
"""Seconds without a change after which decisions are written."""
LONGEST_PAUSE = 5.0
"""Seconds after which they are written in any case."""
MOST_EVENTS = 1000
AT_ONCE = 16
"""Decisions that are written at the same time."""
_AGAIN = Backoff(first=1.0, factor=2.0, longest=60.0)
_MANAGER = "pilothouse-decisions"

Name = tuple[str, str]

log = logging.getLogger(__name__)


class LoggedDecision:
    """A decision to record; the Decision object is built when it is first read."""

    def __init__(self, outcome: str, make: Callable[[], Tree], before: Tree | None) -> None:
        self.outcome = outcome
        self._make = make
        self._before = before

    @cached_property
    def tree(self) -> Tree:
        return carried_on(self._make(), self._before)

    def after(self, before: Tree | None) -> LoggedDecision:
        return LoggedDecision(self.outcome, lambda: self.tree, before)


class DecisionLog:
    def __init__(self, api: Api, clock: Clock, *, manager: str, component: str) -> None:
        """``manager`` is the identity of this process."""
        self._api = api
        self._clock = clock
        self._manager = manager
        self._correlator = EventCorrelator(component=component, host=manager)
        self._decisions: OrderedDict[Name, LoggedDecision] = OrderedDict()
        self._events: OrderedDict[Name, EventWrite] = OrderedDict()
        self._record: dict[Name, Tree] = {}
        self._changed = asyncio.Event()
        self._latest = 0.0
        """When the last decision or event came, by the loop's clock."""
        self._writing = False
        self._keeps_decisions = True
        self.dropped = 0
        """Events that were dropped because the queue was full."""

    @property
    def idle(self) -> bool:
        return not self._decisions and not self._events and not self._writing

    def note(
        self, controller: Controller, seen: Object, world: Snapshot, result: ReconcileResult, attempts: int
    ) -> None:
        """Record a decision that differs from the recorded one.

        Left out are decisions about Decisions, which would never end, and one that deleted its object, since
        the record would be deleted with it.
        """
        if not self._keeps_decisions or seen.noun == Decision:
            return
        name = (seen.namespace or "default", record_name(controller.name, seen.noun, seen.name))
        noted, on_record = self._decisions.get(name), self._record.get(name)
        outcome = result.standing
        if is_idle(outcome, noted.outcome if noted else outcome_of(on_record)) or _ended(seen, result):
            return
        make = partial(record, controller, seen, world, result, manager=self._manager, attempts=attempts)
        self._decisions[name] = LoggedDecision(outcome, make, on_record if noted is None else noted.tree)
        self._notify()

    def forget(self, controller: Controller, key: ReconcileKey) -> None:
        """The object is gone; its Decision is garbage-collected."""
        name = (key.namespace or "default", record_name(controller.name, key.noun, key.name))
        self._decisions.pop(name, None)
        self._record.pop(name, None)

    def record_event(
        self, about: Object, reason: str, message: str, warning: bool, source: EventSource = MANAGER
    ) -> None:
        write = self._correlator.correlate(
            about, reason, message, now=self._clock.now(), warning=warning, source=source
        )
        if write is None:
            return
        meta = write.tree["metadata"]
        self._events[meta["namespace"], meta["name"]] = write
        if len(self._events) > MOST_EVENTS:
            self._events.popitem(last=False)
            self.dropped += 1
        self._notify()

    def _notify(self) -> None:
        self._latest = asyncio.get_running_loop().time()
        self._changed.set()

    async def run(self, fence: Callable[[], LeadershipFence | None]) -> None:
        """Write until cancelled. Raises ``LeadershipLost`` once another process leads."""
        await _retrying("can't read the recorded decisions", self._load)
        if self._events:
            # Events of an earlier term that were not written by its end.
            self._changed.set()
        try:
            await self._keep_writing(fence)
        finally:
            # The next leader decides about every object again.
            self._decisions.clear()

    async def _keep_writing(self, fence: Callable[[], LeadershipFence | None]) -> None:
        while True:
            await self._changed.wait()
            self._writing = True
            try:
                await _retrying("can't write decisions and events", partial(self._write, fence))
            finally:
                self._writing = False

    async def _quiet(self) -> None:
        """Wait until nothing has come for ``PAUSE`` seconds, at most ``LONGEST_PAUSE``."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        end = now + LONGEST_PAUSE
        until = now + PAUSE
        while now < until:
            await asyncio.sleep(until - now)
            now = loop.time()
            until = min(end, self._latest + PAUSE)

    async def _load(self) -> None:
        try:
            page = await self._api.list(Decision)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            log.info(
                "the server has no Decision kind: decisions are not recorded (pilothouse crds prints it)"
            )
            self._keeps_decisions = False
            self._decisions.clear()
            return
        self._record = {one.key: gist(one.tree) for one in page.objects}
        for name, noted in self._decisions.items():
            # Decided while the list was read.
            self._decisions[name] = noted.after(self._record.get(name))

    async def _write(self, fence: Callable[[], LeadershipFence | None]) -> None:
        await self._quiet()
        self._changed.clear()
        while self._decisions:
            some = list(islice(self._decisions.items(), AT_ONCE))
            await together({name[1]: self._write_decision(name, noted, fence) for name, noted in some})
        while self._events:
            name, write = next(iter(self._events.items()))
            await self._attempt(self._event(write, fence()))
            if self._events.get(name) is write:
                del self._events[name]

    async def _write_decision(
        self, name: Name, noted: LoggedDecision, fence: Callable[[], LeadershipFence | None]
    ) -> None:
        if worth_writing(noted.tree, self._record.get(name)):
            term = fence()
            tree = noted.tree if term is None else {**noted.tree, "epoch": term.transitions}
            written = self._api.apply(Decision, tree, force=True, manager=_MANAGER, fence=term)
            if await self._attempt(written):
                self._record[name] = gist(noted.tree)
            else:
                self._record.pop(name, None)
        # A newer one that came meanwhile stays.
        if self._decisions.get(name) is noted:
            del self._decisions[name]

    async def _event(self, write: EventWrite, fence: LeadershipFence | None) -> Object:
        """Create the event, or increase its count. It may have expired, or another process may have created
        it."""
        tree, meta = write.tree, write.tree["metadata"]
        if write.count == 1:
            try:
                return await self._api.create(CoreEvent, tree, fence=fence)
            except StatusError as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
            known = await self._api.get(CoreEvent, meta["name"], meta["namespace"])
            count = int(known.get("count", 0)) + 1
        else:
            count = write.count
        fields = {"count": count, "lastTimestamp": tree["lastTimestamp"]}
        try:
            return await self._api.patch(CoreEvent, meta["name"], meta["namespace"], fields, fence=fence)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
        return await self._api.create(CoreEvent, tree, fence=fence)

    async def _attempt(self, writing: Awaitable[object]) -> bool:
        """True if it was written; False if the server rejects it, which loses only this record."""
        try:
            await writing
        except StatusError as refusal:
            if refusal.reason == FENCED:
                raise LeadershipLost(refusal.message) from refusal
            if refusal.code >= 500 or refusal.code == 429:
                raise
            log.info("the server rejects a record: %s", refusal.message)
            return False
        return True


def _ended(seen: Object, result: ReconcileResult) -> bool:
    return any(isinstance(each.intent, Delete) and each.intent.seen == seen for each in result.done)


async def _retrying(failed: str, attempt: Callable[[], Awaitable[None]]) -> None:
    """Retry with back-off; ``failed`` begins the message in the log."""
    failures = 0
    while True:
        try:
            return await attempt()
        except (StatusError, TransportError, AccessError) as problem:
            failures += 1
            pause = _AGAIN.after(failures)
            log.warning("%s, retrying in %gs: %s", failed, pause, problem)
            await asyncio.sleep(pause)
