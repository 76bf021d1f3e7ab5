"""GET of one object: from the watch cache, in stored bytes."""

from __future__ import annotations

from functools import partial

from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.compressed_bodies import COMPRESS_FROM, GZIPPED, respond_in_form
from pilothouse.apiserver.endpoints.rendering import transformed
from pilothouse.apiserver.server import compression
from pilothouse.apiserver.server.messages import JSON, Request, Response
from pilothouse.apiserver.server.negotiation import BARE, AnswerEndpoint, negotiate
from pilothouse.apiserver.storage import list_options
from pilothouse.apiserver.storage.compressed_objects import CompressedObjects, CompressedVersion
from pilothouse.apiserver.storage.items import Item
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.meta import errors
from pilothouse.store.interface import StoreError


class GetEndpoint:
    def __init__(self, cache: WatchCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._compressed = CompressedObjects()

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
        collection = cache.collection(served.resource.path)
        read = partial(item.served, served, collection.derive)
        if form is BARE and (len(item.value) < COMPRESS_FROM or not _wants_gzip(request)):
            return Response(200, read())
        if form is BARE:
            version = CompressedVersion(item.key, served.kind.api_version, item.revision, collection.shape)
            return Response(200, await self._compressed.gzipped(version, read), JSON, GZIPPED)
        body = transformed(request, served.kind, form, read(), self._clock.now())
        return await respond_in_form(request, form, body)

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


def _wants_gzip(request: Request) -> bool:
    return compression.wanted(request.headers.get("Accept-Encoding", ""))
