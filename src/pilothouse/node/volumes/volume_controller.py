"""The node's volume controller: watches claims and volumes, and executes the plan for them.

    volume_controller = VolumeController(api, "m1", executor, clock, rng)
    await volume_controller.run()

Steps (see ``plan_volumes``) run concurrently: at most one for each volume, and its move to another tier. A
failed step is retried with a back-off, or at once if the spec changes; a condition of the claim and an event
say why it failed. A step is over once our caches have its writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.volume_backend import VolumeBackendError
from pilothouse.node.volumes.volume_plan import (
    DeleteVolume,
    ExpandVolume,
    ModifyVolume,
    MoveVolume,
    ProvisionVolume,
    ReleaseVolume,
    VolumeStep,
    plan_volumes,
)
from pilothouse.node.volumes.volume_plan_executor import VolumePlanExecutor

_AGAIN: Final = Backoff(first=1.0, factor=2.0, longest=60.0)
_SEEN: Final = 10.0
"""Seconds to wait for our own writes to come back."""
_FILLING: Final = 30.0
"""Seconds between warnings about claims or volumes that can't be read."""

log = logging.getLogger(__name__)


class _Failures(NamedTuple):
    """Failed attempts in a row at the same spec."""

    attempts: int
    due: float
    """The monotonic time of the next attempt."""
    spec: Mapping[str, Any]


class VolumeController:
    def __init__(self, api: Api, node: str, runner: VolumePlanExecutor, clock: Clock, rng: Random) -> None:
        self._node = node
        self._runner = runner
        self._clock = clock
        self._claims = Informer(api, PersistentVolumeClaim, rng, clock)
        self._volumes = Informer(api, PersistentVolume, rng, clock)
        self._changed = asyncio.Event()
        self._under_way: set[str] = set()
        self._failures: dict[str, _Failures] = {}
        """By key of the step."""

    @property
    def problem(self) -> str:
        """Why the caches may be behind; empty if they aren't."""
        return self._claims.problem or self._volumes.problem

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run())
            group.create_task(self._volumes.run())
            await self._filled(self._claims)
            await self._filled(self._volumes)
            self._runner.mover.load()
            await self._runner.sweep(
                {claim.uid for claim in self._claims.cache.list()},
                {volume.name for volume in self._volumes.cache.list()},
            )
            self._claims.follow(self._changed.set)
            self._volumes.follow(self._changed.set)
            while True:
                self._changed.clear()
                pause = self._begin(group.create_task)
                try:
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
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
        """Begin the steps that are due; returns the seconds until the next retry."""
        now, pauses, wanted = self._clock.monotonic(), [], set()
        claims, volumes = self._claims.cache.list(), self._volumes.cache.list()
        for step in plan_volumes(self._node, claims, volumes, self._runner.mover.moves):
            key = _key(step)
            wanted.add(key)
            if key in self._under_way:
                continue
            failed = self._failed(step)
            if failed is not None and failed.due > now:
                pauses.append(failed.due - now)
                continue
            self._under_way.add(key)
            start(self._run(step, key))
        for key in self._failures.keys() - wanted - self._under_way:
            del self._failures[key]
        return min(pauses, default=None)

    def _failed(self, step: VolumeStep) -> _Failures | None:
        """Earlier attempts at the same; None after a change of the spec, such as another size of a claim."""
        subject = _subject(step)
        failed = self._failures.get(_key(step))
        return failed if failed is not None and failed.spec == subject.spec else None

    async def _run(self, step: VolumeStep, key: str) -> None:
        try:
            for written in await self._runner.run(step):
                await self._seen(written)
            self._failures.pop(key, None)
        except (VolumeBackendError, StatusError, TransportError, AccessError, OSError) as problem:
            failed = self._failed(step)
            attempts = failed.attempts + 1 if failed is not None else 1
            due = self._clock.monotonic() + _AGAIN.after(attempts)
            self._failures[key] = _Failures(attempts, due, _subject(step).spec)
            log.warning("%s: %s", _description(step), escape_control_characters(str(problem)))
            await self._report(step, problem)
        finally:
            self._under_way.discard(key)
            self._changed.set()

    async def _report(self, step: VolumeStep, problem: Exception) -> None:
        try:
            for written in await self._runner.report(step, problem):
                await self._seen(written)
        except (StatusError, TransportError, AccessError) as another:
            log.warning("%s: failed to report the problem: %s", _description(step), another)

    async def _seen(self, written: Object) -> None:
        informer = self._volumes if written.kind == "PersistentVolume" else self._claims
        try:
            async with asyncio.timeout(_SEEN):
                await informer.until(written.revision)
        except TimeoutError:
            log.info("our own write of %s has not come back within %.0f s", written, _SEEN)


def _key(step: VolumeStep) -> str:
    """Steps of one key don't run concurrently."""
    return f"{step.volume.uid} move" if isinstance(step, MoveVolume) else _subject(step).uid


def _subject(step: VolumeStep) -> Object:
    match step:
        case ProvisionVolume(claim) | ExpandVolume(claim) | ModifyVolume(claim):
            return claim
        case MoveVolume(volume, claim):
            return volume if claim is None else claim
        case DeleteVolume(volume) | ReleaseVolume(volume):
            return volume


def _description(step: VolumeStep) -> str:
    about = _subject(step)
    return f"{type(step).__name__.lower()} {about.kind} {'/'.join(filter(None, about.key))}"
