"""Decisions and events, written to the API besides the work.

    journal = DecisionLog(api, clock, stamp=RecordAuthor("m1"), component="pilothouse-controller-manager")
    await journal.run(fence)               # until cancelled
    journal.note(controller, seen, world, result, attempts)
    journal.tell(about, "SuccessfulCreate", "created pod web-0", False)

Nobody waits for this, and it keeps out of the way of the work: what is noted is kept, the newest of each decision, and made
into a record and written by one task once nothing new has come for a moment, or after a few seconds where there is no end of
it. What can't be written is tried again later; a queue that is full drops events first. A server that has no ``Decision``
kind gets none. What was on record before this process is read once, so that a decision that has not changed is not written
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import cached_property, partial

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
    RecordAuthor,
    carried_on,
    gist,
    is_idle,
    outcome_of,
    record,
    record_name,
    worth_writing,
)
from pilothouse.runtime.event_recorder import EventCorrelator, EventWrite
from pilothouse.runtime.intents import Delete
from pilothouse.runtime.leader_fence import LeadershipLost
from pilothouse.runtime.reconcile_result import ReconcileResult
from pilothouse.runtime.snapshot import Snapshot

PAUSE = 0.5
"""Seconds without news after which what is noted is written: until then it may still change."""
LONGEST_PAUSE = 5.0
"""Seconds after which it is written in any case."""
MOST_EVENTS = 1000
_AGAIN = Backoff(first=1.0, factor=2.0, longest=60.0)
_MANAGER = "pilothouse-decisions"

Name = tuple[str, str]

log = logging.getLogger(__name__)


class LoggedDecision:
    """A decision that is to be on record. The record is made when somebody looks at it."""

    def __init__(self, outcome: str, make: Callable[[], Tree], before: Tree | None) -> None:
        """``before`` is the record that it comes after."""
        self.outcome = outcome
        self._make = make
        self._before = before

    @cached_property
    def tree(self) -> Tree:
        return carried_on(self._make(), self._before)

    def after(self, before: Tree | None) -> LoggedDecision:
        """The same, where it turns out what it comes after."""
        return LoggedDecision(self.outcome, lambda: self.tree, before)


class DecisionLog:
    """What is yet to be written, and what is on record."""

    def __init__(self, api: Api, clock: Clock, *, stamp: RecordAuthor, component: str) -> None:
        self._api = api
        self._clock = clock
        self._stamp = stamp
        self._teller = EventCorrelator(component=component, host=stamp.manager)
        self._decisions: OrderedDict[Name, LoggedDecision] = OrderedDict()
        self._events: OrderedDict[Name, EventWrite] = OrderedDict()
        self._record: dict[Name, Tree] = {}
        self._news = asyncio.Event()
        self._latest = 0.0
        """When there were news, by the loop's clock."""
        self._writing = False
        self._keeps_decisions = True
        self.dropped = 0
        """Events that were not written because too many waited."""

    @property
    def idle(self) -> bool:
        """True if there is nothing to be written."""
        return not self._decisions and not self._events and not self._writing

    def note(
        self, controller: Controller, seen: Object, world: Snapshot, result: ReconcileResult, attempts: int
    ) -> None:
        """Have a decision written down, if it is another than the one on record.

        One about a record is not, or there would be no end; nor is one that did away with its object, whose record
        would go with it.
        """
        if not self._keeps_decisions or seen.noun == Decision:
            return
        name = (seen.namespace or "default", record_name(controller.name, seen.noun, seen.name))
        noted, on_record = self._decisions.get(name), self._record.get(name)
        outcome = result.standing
        if is_idle(outcome, noted.outcome if noted else outcome_of(on_record)) or _ended(seen, result):
            return
        make = partial(record, controller, seen, world, result, stamp=self._stamp, attempts=attempts)
        self._decisions[name] = LoggedDecision(outcome, make, on_record if noted is None else noted.tree)
        self._heard()

    def forget(self, controller: Controller, key: ReconcileKey) -> None:
        """There is no such object any more; its record goes with it."""
        name = (key.namespace or "default", record_name(controller.name, key.noun, key.name))
        self._decisions.pop(name, None)
        self._record.pop(name, None)

    def tell(self, about: Object, reason: str, message: str, warning: bool) -> None:
        """Have an event written."""
        write = self._teller.tell(about, reason, message, now=self._clock.now(), warning=warning)
        if write is None:
            return
        self._events[_name(write.tree)] = write
        if len(self._events) > MOST_EVENTS:
            self._events.popitem(last=False)
            self.dropped += 1
        self._heard()

    def _heard(self) -> None:
        self._latest = asyncio.get_running_loop().time()
        self._news.set()

    async def run(self, fence: Callable[[], LeadershipFence | None]) -> None:
        """Write until cancelled. Raises ``LeadershipLost`` once another leads."""
        await self._remembered()
        if self._events:
            # What was done in an earlier term, and not told by its end.
            self._news.set()
        try:
            await self._keep_writing(fence)
        finally:
            # Whoever leads next decides about everything anew.
            self._decisions.clear()

    async def _keep_writing(self, fence: Callable[[], LeadershipFence | None]) -> None:
        failures = 0
        while True:
            await self._news.wait()
            await self._quiet()
            self._news.clear()
            self._writing = True
            try:
                await self._write(fence)
                failures = 0
            except (StatusError, TransportError, AccessError) as problem:
                failures += 1
                pause = _AGAIN.after(failures)
                log.warning("decisions and events can't be written, again in %gs: %s", pause, problem)
                self._news.set()
                await asyncio.sleep(pause)
            finally:
                self._writing = False

    async def _quiet(self) -> None:
        """Wait until there have been no news for a moment, but not for ever."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        end = now + LONGEST_PAUSE
        until = now + PAUSE
        while now < until:
            await asyncio.sleep(until - now)
            now = loop.time()
            until = min(end, self._latest + PAUSE)

    async def _remembered(self) -> None:
        """Have what is on record read, however long it takes: decisions do not wait for it."""
        failures = 0
        while True:
            try:
                return await self._remember()
            except (StatusError, TransportError, AccessError) as problem:
                failures += 1
                pause = _AGAIN.after(failures)
                log.warning("decisions on record can't be read, again in %gs: %s", pause, problem)
                await asyncio.sleep(pause)

    async def _remember(self) -> None:
        try:
            page = await self._api.list(Decision)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            log.info("the server has no Decision kind: decisions are not kept (pilothouse crds prints it)")
            self._keeps_decisions = False
            self._decisions.clear()
            return
        self._record = {one.key: gist(one.tree) for one in page.objects}
        for name, noted in self._decisions.items():
            # Taken while this was read.
            self._decisions[name] = noted.after(self._record.get(name))

    async def _write(self, fence: Callable[[], LeadershipFence | None]) -> None:
        while self._decisions:
            name, noted = next(iter(self._decisions.items()))
            if worth_writing(noted.tree, self._record.get(name)):
                await self._write_down(name, noted.tree, fence())
            else:
                # There may be thousands that are as they were, and others have to have their turn.
                await asyncio.sleep(0)
            # Meanwhile there may be a newer one, which stays.
            if self._decisions.get(name) is noted:
                del self._decisions[name]
        while self._events:
            name, write = next(iter(self._events.items()))
            await self._attempt(self._event(write, fence()))
            if self._events.get(name) is write:
                del self._events[name]

    async def _write_down(self, name: Name, tree: Tree, term: LeadershipFence | None) -> None:
        stamped = tree if term is None else {**tree, "epoch": term.transitions}
        if await self._attempt(self._api.apply(Decision, stamped, force=True, manager=_MANAGER, fence=term)):
            self._record[name] = gist(tree)
        else:
            self._record.pop(name, None)

    async def _event(self, write: EventWrite, fence: LeadershipFence | None) -> Object:
        """The first time it is made; again, counted up. One that expired, or that another process made, is met too."""
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
        """True if it was written; False if it never will be, which loses a record and nothing else."""
        try:
            await writing
        except StatusError as refusal:
            if refusal.reason == FENCED:
                raise LeadershipLost(refusal.message) from refusal
            if refusal.code >= 500 or refusal.code == 429:
                raise
            log.info("a record is not wanted: %s", refusal.message)
            return False
        return True


def _ended(seen: Object, result: ReconcileResult) -> bool:
    return any(isinstance(act.intent, Delete) and act.intent.seen == seen for act in result.done)


def _name(tree: Tree) -> Name:
    return tree["metadata"]["namespace"], tree["metadata"]["name"]
