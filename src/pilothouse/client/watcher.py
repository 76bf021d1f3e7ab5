"""Carries out what ``watch_machine`` requests.

    watcher = WatchRunner(api, Pod, Random(), Trees(), namespace="default")
    await watcher.run(deliver)          # deliver([Restarted([...])]), later deliver([Applied(pod), ...])

It runs until cancelled; ``problem`` is the current failure. ``restart`` makes it list again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from random import Random

from pilothouse.aio.cooperative import STRETCH
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Trees
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.client.watch_machine import (
    Change,
    Pause,
    ReadPage,
    Restarted,
    StartWatch,
    WaitingState,
    WatchMachine,
)
from pilothouse.meta.errors import StatusError

OPENING = 30.0
"""Seconds that a server may take to begin with its answer."""
_NOT_SERVED = 404
LEEWAY = 10.0
"""Seconds by which a server may exceed the requested duration."""

Deliver = Callable[[list[Change]], Awaitable[None]]

log = logging.getLogger(__name__)


class WatchRunner:
    def __init__(
        self,
        api: Api,
        noun: KindName,
        rng: Random,
        trees: Trees,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        streaming: bool = True,
        partial: bool = False,
        optional: bool = False,
    ) -> None:
        """One namespace or all; labels and fields are selectors; ``partial`` has metadata only; an
        ``optional`` kind has no objects while the server does not serve it. See ``WatchMachine``."""
        self._api = api
        self._noun = noun
        self._watch = WatchMachine(noun, rng, trees, streaming=streaming)
        self._namespace = namespace
        self._view = {"labelSelector": labels, "fieldSelector": fields}
        self._trees = trees
        self._partial = partial
        self._optional = optional
        self.is_missing = False
        """Whether the server does not serve the kind, which is optional."""
        self._relist = False
        self._patience: asyncio.Timeout | None = None
        self.began = -math.inf
        """When the last reading of everything was begun, by the loop's clock."""

    @property
    def problem(self) -> str:
        """Why nothing is received, or empty."""
        return "" if self.is_missing else self._watch.problem

    @property
    def beginnings(self) -> int:
        """How often the watch was restarted, or resumed after a failure."""
        return self._watch.beginnings

    def restart(self) -> None:
        """List again, at once unless in a pause."""
        self._relist = True
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def run(self, deliver: Deliver) -> None:
        """Deliver changes, as many at a time as have arrived. Endless."""
        while True:
            try:
                await self._step(deliver)
            except StatusError as refusal:
                self._watch.refused(refusal)
                if self._optional and refusal.code == _NOT_SERVED:
                    await self._miss(deliver)
            except (TransportError, AccessError) as problem:
                self._watch.broke(str(problem))
            except TimeoutError:
                self._watch.broke(f"the server took longer than {OPENING:g} s to answer")
            if isinstance(self._watch.state, WaitingState) and not self.is_missing:
                log.warning("watching %s: %s", self._noun.resource, self._watch.problem)

    async def _miss(self, deliver: Deliver) -> None:
        """Go on without objects; the server is asked again after each pause."""
        if not self.is_missing:
            log.info("%s is not served, and counts as a kind without objects", self._noun.resource)
            self.is_missing = True
            await deliver([Restarted([], 0)])

    async def _step(self, deliver: Deliver) -> None:
        watch = self._watch
        if self._relist:
            self._relist = False
            watch.restart()
        act = watch.next()
        if (isinstance(act, StartWatch) and act.initial) or (isinstance(act, ReadPage) and not act.token):
            self.began = asyncio.get_running_loop().time()
        match act:
            case ReadPage() as page:
                query = {**self._view, **page.query()}
                got = await self._api.page(
                    self._noun, self._namespace, query, trees=self._trees, partial=self._partial
                )
                self.is_missing = False
                if changes := watch.page(got.objects, got.revision, got.token):
                    await deliver(changes)
            case StartWatch() as opening:
                await self._follow(opening, deliver)
            case Pause(seconds):
                await asyncio.sleep(seconds)
                watch.rested()

    async def _follow(self, opening: StartWatch, deliver: Deliver) -> None:
        watch = self._watch
        loop = asyncio.get_running_loop()
        query = {**self._view, **opening.query()}
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(OPENING):
                opened = self._api.watch(self._noun, self._namespace, query, partial=self._partial)
                lines = await stack.enter_async_context(opened)
            watch.opened()
            self.is_missing = False
            since = loop.time()
            end = since + opening.seconds + LEEWAY
            while watch.is_open and not self._relist:
                try:
                    async with asyncio.timeout_at(min(end, loop.time() + opening.silence)) as self._patience:
                        batch = await anext(lines, None)
                except TimeoutError:
                    if not self._relist:
                        watch.silent()
                    break
                except TransportError:
                    watch.lasted(loop.time() - since)
                    raise
                finally:
                    self._patience = None
                if batch is None:
                    watch.lasted(loop.time() - since)
                    watch.ended()
                else:
                    await self._hand_on(batch, deliver)

    async def _hand_on(self, lines: Sequence[bytes], deliver: Deliver) -> None:
        """There may be thousands at once, so other tasks run in between."""
        for start in range(0, len(lines), STRETCH):
            if start:
                await asyncio.sleep(0)
            if changes := self._watch.took(lines[start : start + STRETCH]):
                await deliver(changes)
            if not self._watch.is_open or self._relist:
                return
