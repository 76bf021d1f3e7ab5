"""LIST: a collection, or the part of it in a namespace, from the watch cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from pilothouse.apiserver.discovery import tables
from pilothouse.apiserver.discovery.catalog import ServedVersion
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.compressed_bodies import COMPRESS_FROM, GZIPPED, respond_in_form
from pilothouse.apiserver.server import compression
from pilothouse.apiserver.server.messages import JSON, ChunkedBody, Request, Response
from pilothouse.apiserver.server.negotiation import PARTIAL_LIST, TABLE, AnswerEndpoint, AnswerForm, negotiate
from pilothouse.apiserver.storage import codec, list_options, listing
from pilothouse.apiserver.storage.collection import Collection
from pilothouse.apiserver.storage.items import Item, served_parts
from pilothouse.apiserver.storage.large_lists import LARGE, gzipped, laid_out, weight
from pilothouse.apiserver.storage.list_bodies import ListBodies, ListView
from pilothouse.apiserver.storage.listing import ListResult
from pilothouse.apiserver.storage.selection import Selection
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.meta.kind import Object


class CollectionSnapshot(msgspec.Struct, frozen=True):
    """The objects of a collection at one revision."""

    items: list[Item]
    revision: int


class ListEndpoint:
    def __init__(self, cache: WatchCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._bodies = ListBodies()
        # One cache for each server: a module's would keep what is served for as long as the process lives.
        self._selection = lru_cache(maxsize=1024)(Selection)

    async def handle(self, call: ResourceRequest) -> Response:
        request = call.request
        form = negotiate(request, AnswerEndpoint.LIST)
        options = list_options.for_list(request.query)
        selection = self._selection(call.served, call.namespace, options.labels, options.fields)
        include = tables.included(request.params()) if form.transform == TABLE else ""
        found = await listing.find(self._cache, selection, options)
        return await self._render(request, selection, form, found, include)

    async def select(self, call: ResourceRequest) -> CollectionSnapshot:
        options = list_options.for_list(call.request.query)
        selection = self._selection(call.served, call.namespace, options.labels, options.fields)
        found = await listing.find(self._cache, selection, options)
        return CollectionSnapshot(found.read(), found.revision)

    async def render(self, call: ResourceRequest, listed: CollectionSnapshot) -> Response:
        request = call.request
        form = negotiate(request, AnswerEndpoint.LIST)
        include = tables.included(request.params()) if form.transform == TABLE else ""
        found = ListResult(lambda: listed.items, listed.revision)
        return await self._render(request, self._selection(call.served, ""), form, found, include)

    async def _render(
        self, request: Request, selection: Selection, form: AnswerForm, found: ListResult, include: str
    ) -> Response:
        served = selection.served
        collection = self._collection(served)
        if form.transform == TABLE:
            return await self._table(request, form, served, found, include)
        view = _view(selection, collection, form)
        if not form.bare and (large := _large(found)) is not None:
            head, parts = view.head(found), view.parts

            def members() -> Iterator[bytes]:
                return (b"".join(parts([item])) for item in large)

            return _in_pieces(request, form, lambda: laid_out(form, head, members()), found, large)
        if form.bare and compression.wanted(request.headers.get("Accept-Encoding", "")):
            packed = await self._bodies.gzipped(view, found, COMPRESS_FROM)
            if packed is not None:
                return Response(200, packed, JSON, GZIPPED)
        body = self._bodies.plain(view, found)
        return Response(200, body) if form.bare else await respond_in_form(request, form, bytes(body))

    def _collection(self, served: ServedVersion) -> Collection:
        return self._cache.collection(served.resource.path)

    async def _table(
        self, request: Request, form: AnswerForm, served: ServedVersion, found: ListResult, include: str
    ) -> Response:
        layout, derive = tables.layout_of(served.kind), self._collection(served).derive
        now = self._clock.now()
        metadata: dict[str, object] = {"resourceVersion": str(found.revision)}
        if found.next is not None:
            metadata["continue"] = found.next.encode()
        if found.remaining is not None:
            metadata["remainingItemCount"] = found.remaining
        items = found.read()

        def rows() -> Iterator[Object]:
            return (layout.row(item.object(served, derive), include, now) for item in items)

        if weight(items) <= LARGE:
            return await respond_in_form(request, form, layout.table(rows(), metadata))
        head = layout.head(metadata)
        return _in_pieces(request, form, lambda: laid_out(form, head, map(codec.dump, rows())), found, items)


def _large(found: ListResult) -> list[Item] | None:
    """The items of a listing, if they are too many to be rendered at once."""
    items = found.read()
    return items if weight(items) > LARGE else None


def _in_pieces(
    request: Request,
    form: AnswerForm,
    read: Callable[[], Iterator[bytes]],
    found: ListResult,
    items: list[Item],
) -> Response:
    """A large list that is made while it is sent, compressed if that is wanted."""
    size = weight(items)
    if compression.wanted(request.headers.get("Accept-Encoding", "")):
        return Response(200, ChunkedBody(lambda: gzipped(read()), size, found.own), form.media, GZIPPED)
    return Response(200, ChunkedBody(read, size, found.own), form.media)


def _view(selection: Selection, collection: Collection, form: AnswerForm) -> ListView:
    served, derive = selection.served, collection.derive
    if form.transform == PARTIAL_LIST:
        return ListView(
            (selection.identity, PARTIAL_LIST),
            collection,
            PARTIAL_LIST,
            "meta.k8s.io/v1",
            lambda items: [b",".join([tables.partial(item.served(served, derive)) for item in items])],
        )
    return ListView(
        selection.identity,
        collection,
        served.kind.list_name,
        served.kind.api_version,
        lambda items: served_parts(items, served, derive),
    )
