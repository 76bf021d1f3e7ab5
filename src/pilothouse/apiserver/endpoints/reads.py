"""GET, LIST and WATCH.

    reader = ReadEndpoints(catalog, cache, clock, rng)
    response = await reader.get(request, served, "t", "db-1")
    response = await reader.list(request, served, "t")
    streaming = await reader.watch(request, served, "t")

Everything is answered from the cache, in stored bytes. A plain GET takes two header look-ups, one look-up of the item,
and one splice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from pilothouse.apiserver.discovery import tables
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints import list_options
from pilothouse.apiserver.endpoints.negotiation import (
    BARE,
    PARTIAL,
    PARTIAL_LIST,
    TABLE,
    AnswerEndpoint,
    AnswerForm,
    negotiate,
    transformed,
)
from pilothouse.apiserver.server import compression
from pilothouse.apiserver.server.messages import JSON, ChunkedBody, Request, Response, StreamingResponse
from pilothouse.apiserver.storage import codec, listing
from pilothouse.apiserver.storage.collection import Collection
from pilothouse.apiserver.storage.fanout import WatchFanout
from pilothouse.apiserver.storage.items import Item, served_parts
from pilothouse.apiserver.storage.large_lists import LARGE, gzipped, laid_out, weight
from pilothouse.apiserver.storage.list_bodies import ListBodies, ListView, gzip_body
from pilothouse.apiserver.storage.listing import ListResult
from pilothouse.apiserver.storage.selection import Selection
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.apiserver.storage.watches import WatchOpener
from pilothouse.base.clock import Clock
from pilothouse.meta import errors
from pilothouse.meta.kind import Object
from pilothouse.store.interface import StoreError

COMPRESS_FROM = 128 * 1024
"""Smaller bodies are not worth the trouble."""
_GZIPPED = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))


class CollectionSnapshot(msgspec.Struct, frozen=True):
    """The objects of a collection at one revision."""

    items: list[Item]
    revision: int


class ReadEndpoints:
    """Answers every read of every kind."""

    def __init__(self, catalog: KindCatalog, cache: WatchCache, clock: Clock, rng: random.Random) -> None:
        self._catalog = catalog
        self._cache = cache
        self._clock = clock
        self._bodies = ListBodies()
        self._fanout = WatchFanout(cache)
        self._watching = WatchOpener(cache, self._fanout, clock, rng)
        # The server's own: what is served would be kept for as long as the process otherwise.
        self._selection = lru_cache(maxsize=1024)(Selection)
        self._resources = {(resource.group, resource.plural): resource for resource in catalog}
        catalog.on_change(self._follow_catalog)

    async def get(self, request: Request, served: ServedVersion, namespace: str, name: str) -> Response:
        """One object; 404 if there is none."""
        cache = self._cache
        current = cache.store.current
        if request.query or not cache.ready or current is None or current > cache.revision:
            item = await self.find(request, served, namespace, name)
        else:
            found = cache.get(served.resource.path, served.key(namespace, name))
            if found is None:
                raise errors.not_found(served.kind.plural, served.kind.group, name)
            item = found
        form = negotiate(request, AnswerEndpoint.OBJECT)
        body = item.served(served, self._collection(served).derive)
        if form is BARE and len(body) < COMPRESS_FROM:
            return Response(200, body)
        body = transformed(request, served.kind, form, body, self._clock.now())
        return await self._finish(request, form, body)

    async def find(self, request: Request, served: ServedVersion, namespace: str, name: str) -> Item:
        """The item that a GET is about, as current as the request asks for; 404 if there is none."""
        cache = self._cache
        cache.check_ready()
        key = served.key(namespace, name)
        revision = list_options.parse_revision(request.params().get("resourceVersion", ""))
        if revision is not None:
            if not await cache.reached(revision):
                raise errors.future_revision(revision, cache.revision)
            item = cache.get(served.resource.path, key)
        elif await cache.fresh():
            item = cache.get(served.resource.path, key)
        else:
            item = await self._read_through(key)
        if item is None:
            raise errors.not_found(served.kind.plural, served.kind.group, name)
        return item

    async def list(self, request: Request, served: ServedVersion, namespace: str) -> Response:
        """A collection, or the part of it in a namespace."""
        form = negotiate(request, AnswerEndpoint.LIST)
        options = list_options.for_list(request.query)
        selection = self._selection(served, namespace, options.labels, options.fields)
        include = tables.included(request.params()) if form.transform == TABLE else ""
        found = await listing.find(self._cache, selection, options)
        return await self._render_listing(request, selection, form, found, include)

    async def watch(
        self,
        request: Request,
        served: ServedVersion,
        namespace: str,
        name: str = "",
        allowed: Callable[[], bool] | None = None,
    ) -> StreamingResponse:
        """Changes of a collection; with a name (the old ``/watch/`` paths), of a single object. ``allowed``, if given, is asked before
        each of them is shown."""
        form = negotiate(request, AnswerEndpoint.WATCH)
        options = list_options.for_watch(request.query)
        fields = options.fields
        if name:
            fields = f"{fields},metadata.name={name}" if fields else f"metadata.name={name}"
        selection = self._selection(served, namespace, options.labels, fields)
        include = tables.included(request.params()) if form.transform == TABLE else tables.METADATA
        return await self._watching.open(selection, options, form, include, allowed)

    async def select(self, request: Request, served: ServedVersion, namespace: str) -> CollectionSnapshot:
        """What a request for a collection is about, for whoever does something to each of its objects."""
        options = list_options.for_list(request.query)
        selection = self._selection(served, namespace, options.labels, options.fields)
        found = await listing.find(self._cache, selection, options)
        return CollectionSnapshot(found.read(), found.revision)

    async def render_list(
        self, request: Request, served: ServedVersion, listed: CollectionSnapshot
    ) -> Response:
        """Objects that were selected, as a list."""
        form = negotiate(request, AnswerEndpoint.LIST)
        include = tables.included(request.params()) if form.transform == TABLE else ""
        found = ListResult(lambda: listed.items, listed.revision)
        return await self._render_listing(request, self._selection(served, ""), form, found, include)

    def render_scale(self, request: Request, scale: Object) -> Response:
        """A Scale, in the form that is asked for."""
        form = negotiate(request, AnswerEndpoint.OBJECT)
        body = codec.dump(scale)
        if form.transform == TABLE:
            body = tables.table_of_scale(scale, tables.included(request.params()), self._clock.now())
        elif form.transform == PARTIAL:
            body = tables.partial(body)
        return Response(200, form.write(body), form.media)

    def end_watches(self) -> None:
        """End every watch cleanly and open no more: the server goes down."""
        self._fanout.end_all()

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        return len(self._fanout)

    @property
    def fanout(self) -> WatchFanout:
        """All of them."""
        return self._fanout

    def _follow_catalog(self) -> None:
        """End the watches of what is no longer served, or is served in another way: clients come again."""
        present = {(resource.group, resource.plural): resource for resource in self._catalog}
        for place, resource in self._resources.items():
            if present.get(place) is not resource:
                self._fanout.end(resource.path)
        self._resources = present

    async def _render_listing(
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
                return Response(200, packed, JSON, _GZIPPED)
        body = self._bodies.plain(view, found)
        return Response(200, body) if form.bare else await self._finish(request, form, bytes(body))

    def _collection(self, served: ServedVersion) -> Collection:
        return self._cache.collection(served.resource.path)

    async def _read_through(self, key: str) -> Item | None:
        """Ask the store itself, as the cache can't say that it is current."""
        try:
            entry = await self._cache.store.get(key)
        except StoreError as problem:
            raise errors.unavailable(f"the store does not answer: {problem}") from None
        return Item(entry.key, entry.revision, entry.value) if entry is not None else None

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
            return await self._finish(request, form, layout.table(rows(), metadata))
        head = layout.head(metadata)
        return _in_pieces(request, form, lambda: laid_out(form, head, map(codec.dump, rows())), found, items)

    async def _finish(self, request: Request, form: AnswerForm, body: bytes) -> Response:
        """JSON in the form that is wanted, compressed if that pays."""
        body = form.write(body)
        if len(body) >= COMPRESS_FROM and compression.wanted(request.headers.get("Accept-Encoding", "")):
            return Response(200, await gzip_body(body), form.media, _GZIPPED)
        return Response(200, body, form.media)


def _large(found: ListResult) -> list[Item] | None:
    """The items of a listing, if they are too many to be laid out in one go."""
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
        return Response(200, ChunkedBody(lambda: gzipped(read()), size, found.own), form.media, _GZIPPED)
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
