"""WATCH: the changes of a collection as a stream, and all the watches that are open."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache

from pilothouse.apiserver.discovery import tables
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.server.messages import StreamingResponse
from pilothouse.apiserver.server.negotiation import TABLE, AnswerEndpoint, negotiate
from pilothouse.apiserver.storage import list_options
from pilothouse.apiserver.storage.fanout import WatchFanout
from pilothouse.apiserver.storage.selection import Selection
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.apiserver.storage.watches import WatchOpener
from pilothouse.base.clock import Clock


class WatchEndpoint:
    def __init__(self, catalog: KindCatalog, cache: WatchCache, clock: Clock, rng: random.Random) -> None:
        self._catalog = catalog
        self.fanout = WatchFanout(cache)
        self._opener = WatchOpener(cache, self.fanout, clock, rng)
        # One cache for each server: a module's would keep what is served for as long as the process lives.
        self._selection = lru_cache(maxsize=1024)(Selection)
        self._resources = {(resource.group, resource.plural): resource for resource in catalog}
        catalog.on_change(self._follow_catalog)

    async def handle(
        self, call: ResourceRequest, allowed: Callable[[], bool] | None = None
    ) -> StreamingResponse:
        """Changes of a collection; with a name (the old ``/watch/`` paths), of one object.

        ``allowed``, if given, is called before each event is sent.
        """
        request = call.request
        form = negotiate(request, AnswerEndpoint.WATCH)
        options = list_options.for_watch(request.query)
        fields = options.fields
        if call.name:
            fields = f"{fields},metadata.name={call.name}" if fields else f"metadata.name={call.name}"
        selection = self._selection(call.served, call.namespace, options.labels, fields)
        include = tables.included(request.params()) if form.transform == TABLE else tables.METADATA
        return await self._opener.open(selection, options, form, include, allowed)

    def end_all(self) -> None:
        """End every watch and open no more, for shutdown."""
        self.fanout.end_all()

    def _follow_catalog(self) -> None:
        """End the watches of resources that are removed or changed; clients watch again."""
        present = {(resource.group, resource.plural): resource for resource in self._catalog}
        for identity, resource in self._resources.items():
            if present.get(identity) is not resource:
                self.fanout.end(resource.path)
        self._resources = present
