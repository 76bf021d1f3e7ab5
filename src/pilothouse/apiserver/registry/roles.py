"""Roles and bindings (``rbac.authorization.k8s.io``): judged by the rights that count at this moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilothouse.apiserver.authorization.rbac.escalation import Escalation
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.apiserver.server.messages import Answer
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta import errors
from pilothouse.meta.kind import Object


class RoleStrategy(Strategy):
    """The strategy of Roles, ClusterRoles and their bindings."""

    def __init__(self, escalation: Escalation, cache: WatchCache) -> None:
        self._escalation = escalation
        self._cache = cache

    async def around_write(self, call: ResourceRequest, write: Callable[[], Awaitable[Answer]]) -> Answer:
        """A write sees every earlier one, and takes effect before it is answered."""
        if not await self._cache.fresh():
            raise errors.unavailable("roles and bindings are not known yet; please try again")
        answer = await write()
        await self._cache.fresh()
        return answer

    def authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        self._escalation.check(call, new, old)
