"""GET of one object: from the watch cache, in stored bytes."""

from __future__ import annotations

from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.compressed_bodies import COMPRESS_FROM, respond_in_form
from pilothouse.apiserver.endpoints.rendering import transformed
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.server.negotiation import BARE, AnswerEndpoint, negotiate
from pilothouse.apiserver.storage import list_options
from pilothouse.apiserver.storage.items import Item
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.meta import errors
from pilothouse.store.interface import StoreError


class GetEndpoint:
    def __init__(self, cache: WatchCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock

    async def handle(self, call: ResourceRequest) -> Response:
        cache, request, served = self._cache, call.request, call.served
        current = cache.store.current
        if request.query or not cache.ready or current is None or current > cache.revision:
            item = await self._find(call)
        else:
            item = cache.get(served.resource.path, call.key)
        if item is None:
            raise errors.not_found(served.kind.plural, served.kind.group, call.name)
        form = negotiate(request, AnswerEndpoint.OBJECT)
        body = item.served(served, cache.collection(served.resource.path).derive)
        if form is BARE and len(body) < COMPRESS_FROM:
            return Response(200, body)
        return await respond_in_form(
            request, form, transformed(request, served.kind, form, body, self._clock.now())
        )

    async def _find(self, call: ResourceRequest) -> Item | None:
        """The item, as current as the request asks for."""
        cache, path = self._cache, call.served.resource.path
        cache.check_ready()
        revision = list_options.parse_revision(call.request.params().get("resourceVersion", ""))
        if revision is not None:
            if not await cache.reached(revision):
                raise errors.future_revision(revision, cache.revision)
            return cache.get(path, call.key)
        if await cache.fresh():
            return cache.get(path, call.key)
        # The cache does not know whether it is current: the store does.
        try:
            entry = await cache.store.get(call.key)
        except StoreError as problem:
            raise errors.unavailable(f"the store does not answer: {problem}") from None
        return Item(entry.key, entry.revision, entry.value) if entry is not None else None
