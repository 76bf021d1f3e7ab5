"""Nodes: their claims to addresses are judged one at a time, and their servers are read through here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from pilothouse.apiserver.authorization.restriction.node_claims import NewClaims
from pilothouse.apiserver.authorization.restriction.restriction_authorizer import Restriction
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.signal_authorization import SignalAuthorization
from pilothouse.apiserver.registry.strategy import Handler, Strategy
from pilothouse.apiserver.server.messages import Answer
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta import errors
from pilothouse.meta.kind import Object


class NodeStrategy(Strategy):
    def __init__(
        self, restriction: Restriction, cache: WatchCache, proxy: Handler, signals: SignalAuthorization
    ) -> None:
        self._restriction = restriction
        self._signals = signals
        self._cache = cache
        self._claims = asyncio.Lock()
        self._writes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One for each node that claims something."""
        self.subresources = {"proxy": proxy}

    def authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        self._signals.check(call, new, old)

    async def around_write(self, call: ResourceRequest, write: Callable[[], Awaitable[Answer]]) -> Answer:
        """Serialises writes of node claims, each with every earlier write visible.

        A node waits for its own such writes before it waits for those of others.
        """
        request = call.request
        if not self._restriction.confines(request.user):
            return await write()
        warnings = len(request.warnings)
        try:
            return await write()
        except NewClaims:
            del request.warnings[warnings:]
        own = self._writes.setdefault(request.user.name, asyncio.Lock())
        async with own, self._claims:
            request.claims_alone = True
            if not await self._cache.fresh():
                raise errors.unavailable("the addresses of other nodes are not known yet; please try again")
            answer = await write()
            await self._cache.fresh()
            return answer
