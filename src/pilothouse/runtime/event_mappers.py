"""Mappers of a controller: from a changed object to the keys to reconcile, retried when one raises.

    mappers = EventMappers(controller, world=..., add=queue.add, counters=counters, note=decision_log.note)
    mappers.map(mapper, pod, priority=1)          # adds the keys that the mapper returns

When a mapper raises, the error is recorded for the object, and the mapper is called again with back-off. If
the object changes meanwhile, the first and the latest version are kept, since they may map to different keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.runtime.controller import Controller, Mapper, ReconcileKey
from pilothouse.runtime.engine_counters import EngineCounters
from pilothouse.runtime.reconcile_result import ReconcileResult
from pilothouse.runtime.snapshot import Snapshot

RETRY = Backoff(first=1.0, factor=2.0, longest=300.0)

log = logging.getLogger(__name__)


Note = Callable[[Controller, Object, Snapshot, ReconcileResult, int], None]
"""``DecisionLog.note``."""


class _Unmapped:
    """An object on which a mapper raised."""

    def __init__(self, mapper: Mapper) -> None:
        self.mapper = mapper
        self.versions: list[Object] = []
        self.failures = 0
        self.alarm: asyncio.TimerHandle | None = None

    def take(self, one: Object) -> None:
        if one not in self.versions:
            self.versions = [*self.versions[:1], one]


class EventMappers:
    def __init__(
        self,
        controller: Controller,
        *,
        world: Callable[[], Snapshot],
        add: Callable[[ReconcileKey, int], None],
        counters: EngineCounters,
        note: Note,
    ) -> None:
        self._controller = controller
        self._world = world
        self._add = add
        self._counters = counters
        self._note = note
        self._unmapped: dict[ReconcileKey, _Unmapped] = {}

    def map(self, mapper: Mapper, one: Object, priority: int) -> None:
        """Queue the keys that an added, changed or deleted object maps to."""
        problem = self._map(mapper, one, priority)
        if not problem:
            return
        key = ReconcileKey(one.noun, one.namespace, one.name)
        unmapped = self._unmapped.setdefault(key, _Unmapped(mapper))
        unmapped.take(one)
        self._failed(key, unmapped, one, problem)

    def clear(self) -> None:
        for each in self._unmapped.values():
            if each.alarm is not None:
                each.alarm.cancel()
        self._unmapped.clear()

    def _map(self, mapper: Mapper, one: Object, priority: int) -> str:
        """The error; empty if there is none."""
        try:
            found = [
                key if isinstance(key, ReconcileKey) else ReconcileKey(self._controller.primary, *key)
                for key in mapper(one, self._world())
            ]
        except Exception as problem:
            log.exception("%s: mapping %r failed", self._controller.name, one)
            return f"mapping to dependent objects failed: {type(problem).__name__}: {problem}"
        for key in found:
            self._add(key, priority)
        return ""

    def _failed(self, key: ReconcileKey, unmapped: _Unmapped, one: Object, problem: str) -> None:
        self._counters.errors += 1
        unmapped.failures += 1
        result = ReconcileResult(error=problem)
        self._note(self._controller, one, self._world(), result, unmapped.failures)
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
        self._note(self._controller, unmapped.versions[-1], self._world(), ReconcileResult(), 0)
