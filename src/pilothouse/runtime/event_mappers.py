"""Whom a change concerns: a controller's mappers, asked again when they break.

    mappers = EventMappers(controller, world=..., add=queue.add, tally=tally, journal=journal)
    mappers.told(mapper, pod, priority=1)          # the keys that it names are added
    mappers.clear()

A mapper that raises must not leave those it would have named unlooked at for ever. It is counted, there is a record about the
object that it could not cope with, and it is asked again after a pause that grows. Of an object that changes meanwhile
the first and the latest version that it failed on are kept: whom the first concerned may not be whom the last does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.runtime.controller import Controller, Mapper, ReconcileKey
from pilothouse.runtime.engine_counters import EngineCounters
from pilothouse.runtime.reconcile_result import ReconcileResult
from pilothouse.runtime.snapshot import Snapshot

RETRY = Backoff(first=1.0, factor=2.0, longest=300.0)

log = logging.getLogger(__name__)


class MapperErrors(Protocol):
    """Where decisions are written down."""

    def note(
        self, controller: Controller, seen: Object, world: Snapshot, result: ReconcileResult, attempts: int
    ) -> None: ...


class _Unmapped:
    """An object that a mapper could not cope with."""

    def __init__(self, mapper: Mapper) -> None:
        self.mapper = mapper
        self.versions: list[Object] = []
        self.failures = 0
        self.alarm: asyncio.TimerHandle | None = None

    def take(self, one: Object) -> None:
        if one not in self.versions:
            self.versions = [*self.versions[:1], one]


class EventMappers:
    """The mappers of one controller."""

    def __init__(
        self,
        controller: Controller,
        *,
        world: Callable[[], Snapshot],
        add: Callable[[ReconcileKey, int], None],
        tally: EngineCounters,
        journal: MapperErrors,
    ) -> None:
        self._controller = controller
        self._world = world
        self._add = add
        self._tally = tally
        self._journal = journal
        self._unmapped: dict[ReconcileKey, _Unmapped] = {}

    def told(self, mapper: Mapper, one: Object, priority: int) -> None:
        """An object is there, has changed or is gone: have those looked at whom it concerns."""
        problem = self._map(mapper, one, priority)
        if not problem:
            return
        key = ReconcileKey(one.noun, one.namespace, one.name)
        unmapped = self._unmapped.setdefault(key, _Unmapped(mapper))
        unmapped.take(one)
        self._failed(key, unmapped, one, problem)

    def clear(self) -> None:
        """Ask nothing again."""
        for each in self._unmapped.values():
            if each.alarm is not None:
                each.alarm.cancel()
        self._unmapped.clear()

    def _map(self, mapper: Mapper, one: Object, priority: int) -> str:
        """Empty if all went well, else what is wrong."""
        try:
            found = [
                key if isinstance(key, ReconcileKey) else ReconcileKey(self._controller.primary, *key)
                for key in mapper(one, self._world())
            ]
        except Exception as problem:
            log.exception("%s: whom %r concerns can't be told", self._controller.name, one)
            return f"whom it concerns can't be told: {type(problem).__name__}: {problem}"
        for key in found:
            self._add(key, priority)
        return ""

    def _failed(self, key: ReconcileKey, unmapped: _Unmapped, one: Object, problem: str) -> None:
        self._tally.errors += 1
        unmapped.failures += 1
        self._journal.note(
            self._controller, one, self._world(), ReconcileResult(error=problem), unmapped.failures
        )
        if unmapped.alarm is not None:
            unmapped.alarm.cancel()
        pause = RETRY.after(unmapped.failures)
        unmapped.alarm = asyncio.get_running_loop().call_later(pause, self._again, key)

    def _again(self, key: ReconcileKey) -> None:
        unmapped = self._unmapped[key]
        for one in unmapped.versions:
            if problem := self._map(unmapped.mapper, one, 0):
                self._failed(key, unmapped, one, problem)
                return
        del self._unmapped[key]
        self._journal.note(self._controller, unmapped.versions[-1], self._world(), ReconcileResult(), 0)
