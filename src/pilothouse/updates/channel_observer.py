"""Answers the checks of UpdateConfigs: what their channels offer.

    observer = ChannelObserver(api, informers.get(UpdateConfig), clock, ChannelSource(api, clock, …))
    await observer.run(election.fence)          # until cancelled

A check is asked for in ``status.check``; the answer, with that number, goes into ``status.answer``. A check
that fails gets an answer that says why. Written under the fence of the leading manager.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

import msgspec

from pilothouse.api.k0s.v1beta2 import ChannelAnswer
from pilothouse.api.kind_names import UpdateConfig
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api, Patch
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.intent_executor import FenceOf
from pilothouse.updates.channel_client import NoOffer
from pilothouse.updates.channel_index import ChannelOffer

_RETRY: Final = 1.0
_LONGEST_MESSAGE: Final = 1000

log = logging.getLogger(__name__)


class OfferSource(Protocol):
    """How a channel is asked."""

    async def offer(self, config: Object, fence: FenceOf) -> ChannelOffer:
        """Raises NoOffer, whose text says why."""


class ChannelObserver:
    """Follows UpdateConfigs, and writes answers, one at a time."""

    def __init__(self, api: Api, configs: Informer, clock: Clock, source: OfferSource) -> None:
        self._api = api
        self._configs = configs
        self._clock = clock
        self._source = source
        self._written: dict[str, int] = {}
        """By uid, the checks that were answered: the cache may be behind."""

    async def run(self, fence: FenceOf) -> None:
        """Answer until cancelled. ``fence`` raises when this process leads no more."""
        changed = asyncio.Event()
        unsubscribe = self._configs.subscribe(lambda _: changed.set())
        # A former leader of this name may have answered in between: only what the cache says counts.
        self._written.clear()
        try:
            while True:
                await changed.wait()
                changed.clear()
                for config in self._configs.cache.list():
                    if not self._unanswered(config):
                        continue
                    try:
                        await self._write(config, await self._answer(config, fence), fence)
                    except (StatusError, TransportError, AccessError) as problem:
                        log.warning(
                            "the answer to UpdateConfig %s can't be written, retrying: %s",
                            config.name,
                            problem,
                        )
                        await asyncio.sleep(_RETRY)
                        changed.set()
        finally:
            unsubscribe()

    def _unanswered(self, config: Object) -> bool:
        asked = config.status.get("check", 0)
        answered = (config.status.get("answer") or {}).get("number", 0)
        return bool(asked > max(answered, self._written.get(config.uid, 0))) and not config.deleting

    async def _answer(self, config: Object, fence: FenceOf) -> ChannelAnswer:
        number = config.status["check"]
        try:
            offer = await self._source.offer(config, fence)
        except NoOffer as problem:
            log.info("UpdateConfig %s: %s", config.name, problem)
            message = str(problem)[:_LONGEST_MESSAGE]
            return ChannelAnswer(number=number, time=format_time(self._clock.now()), message=message)
        return ChannelAnswer(
            number=number,
            time=format_time(self._clock.now()),
            version=offer.version,
            downloads=offer.downloads,
        )

    async def _write(self, config: Object, answer: ChannelAnswer, fence: FenceOf) -> None:
        # Of this config, and not of one that was created under its name while the channel was asked.
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": config.uid},
            {"op": "add", "path": "/status/answer", "value": msgspec.to_builtins(answer)},
        ]
        try:
            await self._api.patch(
                UpdateConfig, config.name, "", patch, kind=Patch.JSON, subresource="status", fence=fence()
            )
        except StatusError as refusal:
            if refusal.code not in (404, 422):
                raise
            log.info("the answer to UpdateConfig %s was not taken: %s", config.name, refusal)
        self._written[config.uid] = answer.number
