"""The node's volume controller: watches claims and volumes, and executes the plan for them.

    volume_controller = VolumeController(api, "m1", executor, clock, rng)
    await volume_controller.run()

Each step (see ``plan_volumes``) is run by itself, so that a filesystem that takes its time holds up nobody else, and no two are run for one volume at once.
One that fails is tried again after a pause that grows; the claim says why in a condition, and an event tells it. A step is over once our own
caches have seen what it wrote.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Final

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.volume_backend import VolumeBackendError
from pilothouse.node.volumes.volume_plan import (
    ExpandVolume,
    ModifyVolume,
    ProvisionVolume,
    VolumeStep,
    plan_volumes,
)
from pilothouse.node.volumes.volume_plan_executor import VolumePlanExecutor

_AGAIN: Final = Backoff(first=1.0, factor=2.0, longest=60.0)
_SEEN: Final = 10.0
"""Seconds to wait for our own writes to come back."""
_FILLING: Final = 30.0
"""Seconds between two words about claims or volumes that can't be read."""

log = logging.getLogger(__name__)


class VolumeController:
    """Keeps the volumes of this node in step with what claims ask for."""

    def __init__(self, api: Api, node: str, runner: VolumePlanExecutor, clock: Clock, rng: Random) -> None:
        self._node = node
        self._runner = runner
        self._clock = clock
        self._claims = Informer(api, PersistentVolumeClaim, rng, clock)
        self._volumes = Informer(api, PersistentVolume, rng, clock)
        self._news = asyncio.Event()
        self._under_way: set[str] = set()
        self._failures: dict[str, tuple[int, float]] = {}
        """By the uid of claim or volume: how often in a row, and when to try again by the monotonic clock."""

    @property
    def problem(self) -> str:
        """Why we may be behind; empty while all is well."""
        return self._claims.problem or self._volumes.problem

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run())
            group.create_task(self._volumes.run())
            await self._filled(self._claims)
            await self._filled(self._volumes)
            await self._runner.sweep(
                {claim.uid for claim in self._claims.cache.list()},
                {volume.name for volume in self._volumes.cache.list()},
            )
            self._claims.follow(self._news.set)
            self._volumes.follow(self._news.set)
            while True:
                self._news.clear()
                pause = self._begin(group.create_task)
                try:
                    async with asyncio.timeout(pause):
                        await self._news.wait()
                except TimeoutError:
                    continue

    async def _filled(self, informer: Informer) -> None:
        while not informer.is_synced:
            try:
                async with asyncio.timeout(_FILLING):
                    await informer.synced()
            except TimeoutError:
                kind, why = informer.noun.plural, informer.problem or "the server does not answer"
                log.warning("no volumes are made here while %s can't be followed: %s", kind, why)

    def _begin(self, start: Callable[..., asyncio.Task[None]]) -> float | None:
        """Begin what can be begun; the seconds until something is to be tried again."""
        now, pauses, wanted = self._clock.monotonic(), [], set()
        for step in plan_volumes(self._node, self._claims.cache.list(), self._volumes.cache.list()):
            key = _key(step)
            wanted.add(key)
            _, due = self._failures.get(key, (0, now))
            if key in self._under_way:
                continue
            if due > now:
                pauses.append(due - now)
                continue
            self._under_way.add(key)
            start(self._run(step, key))
        for key in self._failures.keys() - wanted - self._under_way:
            del self._failures[key]
        return min(pauses, default=None)

    async def _run(self, step: VolumeStep, key: str) -> None:
        try:
            for written in await self._runner.run(step):
                await self._seen(written)
            self._failures.pop(key, None)
        except (VolumeBackendError, StatusError, TransportError, AccessError, OSError) as problem:
            failures = self._failures.get(key, (0, 0.0))[0] + 1
            self._failures[key] = failures, self._clock.monotonic() + _AGAIN.after(failures)
            log.warning("%s: %s", _told(step), problem)
            await self._say(step, problem)
        finally:
            self._under_way.discard(key)
            self._news.set()

    async def _say(self, step: VolumeStep, problem: Exception) -> None:
        try:
            for written in await self._runner.complain(step, problem):
                await self._seen(written)
        except (StatusError, TransportError, AccessError) as another:
            log.warning("%s: failed to report the problem: %s", _told(step), another)

    async def _seen(self, written: Object) -> None:
        informer = self._volumes if written.kind == "PersistentVolume" else self._claims
        try:
            async with asyncio.timeout(_SEEN):
                await informer.until(written.revision)
        except TimeoutError:
            log.info("our own write of %s has not come back within %.0f s", written, _SEEN)


def _key(step: VolumeStep) -> str:
    """What a step is about: there is one at a time."""
    return (
        step.claim.uid if isinstance(step, ProvisionVolume | ExpandVolume | ModifyVolume) else step.volume.uid
    )


def _told(step: VolumeStep) -> str:
    about = step.claim if isinstance(step, ProvisionVolume | ExpandVolume | ModifyVolume) else step.volume
    return f"{type(step).__name__.lower()} {about.kind} {'/'.join(filter(None, about.key))}"
