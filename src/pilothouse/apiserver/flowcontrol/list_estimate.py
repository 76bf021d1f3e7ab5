"""Estimates how many objects a list will read, from its path; a large object counts as several."""

from __future__ import annotations

from urllib.parse import parse_qs

from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.endpoints.request_info import RequestInfo
from pilothouse.apiserver.storage.watch_cache import WatchCache

FEW = 2000
"""Up to here it makes no difference, so nothing is counted."""
ORDINARY = 2048
"""Bytes of an ordinary object."""


class ListEstimate:
    """Reads the cache; selectors are not applied."""

    def __init__(self, catalog: KindCatalog, cache: WatchCache) -> None:
        self._catalog = catalog
        self._cache = cache

    def size_of(self, place: RequestInfo, query: str) -> int:
        served = self._catalog.find(place.group, place.version, place.plural)
        if served is None or served.kind.virtual:
            return 0
        collection = self._cache.collection(served.resource.path)
        objects = len(collection.items)
        size = max(objects, collection.size // ORDINARY)
        if size > FEW and place.namespaced and served.kind.namespaced:
            inside = len(collection.keys(served.prefix(place.namespace)))
            size, objects = size * inside // objects, inside
        if size > FEW and "limit=" in query:
            limit = parse_qs(query).get("limit", [""])[0]
            if limit.isascii() and limit.isdecimal() and len(limit) < 10 and int(limit):
                size = min(size, size * int(limit) // objects)
        return size
