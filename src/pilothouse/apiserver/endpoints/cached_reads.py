"""GET of one object from the cache, answered synchronously.

    prompt = CachedReads(catalog, cache, authorizer, requests)
    aim = prompt.aim(b"/api/v1/namespaces/t/configmaps/a")      # worked out once for each target
    prompt.answer(aim, request)                                 # a Response, or None

If the cache is current and the user is authorized, the request needs no task, deadline or seat of flow
control. In all other cases, errors included, the result is None and the request takes the ordinary path,
which answers the same. Targets are cached until the catalog changes; the user is authorized each time.
"""

from __future__ import annotations

import re
from time import perf_counter

import msgspec

from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints.compressed_bodies import COMPRESS_FROM
from pilothouse.apiserver.endpoints.request_info import fits, locate
from pilothouse.apiserver.metrics.request_metrics import RequestCounters, RequestSeries
from pilothouse.apiserver.server import limits
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.storage import list_options
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta.errors import StatusError

MOST = 8192
"""Targets that are remembered."""
LONGEST = 512
_PLAIN = re.compile(rb"(/[A-Za-z0-9_:-][A-Za-z0-9._:-]*)+(\?[A-Za-z0-9=&]*)?")
"""Targets that mean what they say: nothing to decode, no empty segment, none that begins with a dot."""
_PARAMETERS = frozenset({"resourceVersion", "timeout"})


class ReadTarget(msgspec.Struct, frozen=True):
    """What a target asks for."""

    path: str
    query: str
    served: ServedVersion
    key: str
    attributes: Attributes
    series: RequestSeries
    least: int | None
    """The revision that the answer must have reached; None if it has to be the latest."""


class CachedReads:
    def __init__(
        self, catalog: KindCatalog, cache: WatchCache, authorizer: Authorizer, requests: RequestCounters
    ) -> None:
        self._catalog = catalog
        self._cache = cache
        self._authorizer = authorizer
        self._requests = requests
        self._aims: dict[bytes, ReadTarget | None] = {}
        catalog.on_change(self._aims.clear)

    def aim(self, target: bytes) -> ReadTarget | None:
        """What a GET of a target asks for; None if that is not one object."""
        try:
            return self._aims[target]
        except KeyError:
            return self._learn(target)

    def answer(self, aim: ReadTarget, request: Request) -> Response | None:
        """The object, if the user may read it and the cache is current; counted if so."""
        began = perf_counter()
        cache, served = self._cache, aim.served
        if not cache.ready:
            return None
        least = cache.store.current if aim.least is None else aim.least
        if least is None or least > cache.revision:
            return None
        collection = cache.collection(served.resource.path)
        item = collection.items.get(aim.key)
        if item is None:
            return None
        request.verdict = decision = self._authorizer.decide(request.user, aim.attributes)
        if not decision.allowed:
            return None
        body = item.served(served, collection.derive)
        if len(body) >= COMPRESS_FROM:
            return None
        aim.series.count(200, perf_counter() - began)
        return Response(200, body)

    def _learn(self, target: bytes) -> ReadTarget | None:
        if len(target) > LONGEST:
            return None
        if len(self._aims) >= MOST:
            self._aims.clear()
        aim = self._aims[target] = self._read(target)
        return aim

    def _read(self, target: bytes) -> ReadTarget | None:
        if not _PLAIN.fullmatch(target):
            return None
        path, _, query = target.decode().partition("?")
        place = locate(path)
        if not place.name or place.subresource or place.watch:
            return None
        served = self._catalog.find(place.group, place.version, place.plural)
        if served is None or not fits(served.kind, place, "get"):
            return None
        kind = served.kind
        if "get" not in kind.verbs or kind.virtual or kind.deprecation:
            return None
        params = Request("GET", path, query).params()
        try:
            limits.allowance(query, mutating=False)
            least = list_options.parse_revision(params.get("resourceVersion", ""))
        except StatusError:
            return None
        if not params.keys() <= _PARAMETERS:
            return None
        return ReadTarget(
            path,
            query,
            served,
            served.key(place.namespace if kind.namespaced else "", place.name),
            Attributes.of_place("get", place, path),
            self._requests.sort("GET", place),
            least,
        )
