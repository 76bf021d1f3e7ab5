"""A watch driven by samples: what it measures, and not a change, decides which objects are reconciled.

    @controller(PersistentVolumeClaim, sampled=watch_metrics)
    def grown_claims(claim: Object, world: Snapshot): ...

    world.readings                       # what the watch has measured

A controller names the function that makes the watch; controllers that name the same one share a watch. It
runs beside the engines of the leading manager, in a dry run too, and writes nothing: it adds keys, and its
readings are part of the snapshot that a decision gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.runtime.snapshot import KindView

Enqueue = Callable[[KindName, str, str], None]
"""Reconcile the object of this kind, namespace and name."""


class SubscribableCache(KindView, Protocol):
    """A cache that reports changes."""

    def subscribe(self, changed: Callable[[Object | None, Object | None], None]) -> Callable[[], None]:
        """Call back on every change from here on, until the returned function is called."""
        ...


class SampledWatch(Protocol):
    """Measures what the objects of its controllers are like."""

    @property
    def readings(self) -> object:
        """What is known at this moment."""
        ...

    @property
    def idle(self) -> bool:
        """True once everything has been looked at since it started to run."""
        ...

    async def run(self, caches: Mapping[KindName, SubscribableCache], enqueue: Enqueue) -> None:
        """Measure until cancelled."""
        ...


WatchFactory = Callable[[Clock], SampledWatch]
