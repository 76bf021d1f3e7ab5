"""Request counters and latencies, by what was requested and how it ended.

    requests = RequestCounters(catalog)
    requests.observe(request, status=200, streaming=False, seconds=0.0002)      # for every request
    for series in requests.series(): ...

Labels are bounded: only served resources and subresources and existing methods and statuses become labels;
all else is counted under the empty resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.endpoints.request_info import RequestInfo, locate
from pilothouse.apiserver.server.messages import Request
from pilothouse.base.histogram import Histogram
from pilothouse.meta.kind import Kind

SECONDS = (
    *(0.0005, 0.001, 0.0025),
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
"""kube-apiserver's bounds, and some below them."""
_VERBS = {
    **{method: method for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")},
    **{verb: verb for verb in ("LIST", "WATCH", "APPLY", "DELETECOLLECTION")},
    "HEAD": "GET",
}
MOST = 10_000
"""Limit of series; definitions may come and go."""
_APPLY = "application/apply-patch"

_Key = tuple[str, str, str, str, str, bool, bool]


class RequestSeries:
    __slots__ = ("codes", "group", "resource", "scope", "seconds", "subresource", "verb", "version")

    def __init__(
        self, verb: str, group: str, version: str, resource: str, subresource: str, scope: str
    ) -> None:
        self.verb = verb
        self.group = group
        self.version = version
        self.resource = resource
        self.subresource = subresource
        self.scope = scope
        self.codes: dict[int, int] = defaultdict(int)
        self.seconds = Histogram(SECONDS)
        """Of those that have an end: watches go on until the client has enough."""

    def count(self, status: int, seconds: float | None) -> None:
        """Count a request and its duration; None for a stream."""
        self.codes[status] += 1
        if seconds is not None:
            self.seconds.observe(seconds)


class RequestCounters:
    def __init__(self, catalog: KindCatalog) -> None:
        self._catalog = catalog
        self._known: dict[_Key, RequestSeries] = {}
        self._series: dict[tuple[str, ...], RequestSeries] = {}

    def observe(self, request: Request, status: int, streaming: bool, seconds: float) -> None:
        """A request was answered, or its stream has started."""
        place = locate(request.path)
        method = request.method
        if not place.name and place.plural:
            method = _of_collection(request, streaming)
        elif method == "PATCH" and request.headers.get("Content-Type", "").startswith(_APPLY):
            method = "APPLY"
        self.sort(method, place).count(status, None if streaming else seconds)

    def sort(self, method: str, place: RequestInfo) -> RequestSeries:
        """The series of a method and a place. ``method`` may be a verb where that is more precise."""
        key = (
            method,
            place.group,
            place.version,
            place.plural,
            place.subresource,
            place.name != "",
            place.namespaced,
        )
        series = self._known.get(key)
        return self._begin(key) if series is None else series

    def series(self) -> Iterable[RequestSeries]:
        return self._series.values()

    def _begin(self, key: _Key) -> RequestSeries:
        method, group, version, plural, subresource, named, namespaced = key
        verb = _VERBS.get(method, "other")
        served = self._catalog.find(group, version, plural)
        if (
            served is None
            or verb == "other"
            or not _has(served.kind, subresource)
            or len(self._known) >= MOST
        ):
            return self._of(verb, "", "", "", "", "")
        scope = "resource" if named or verb == "POST" else "namespace" if namespaced else "cluster"
        found = self._known[key] = self._of(verb, group, version, plural, subresource, scope)
        return found

    def _of(self, *labels: str) -> RequestSeries:
        """Several methods may share a series: a HEAD is a GET."""
        found = self._series.get(labels)
        if found is None:
            found = self._series[labels] = RequestSeries(*labels)
        return found


def _has(kind: Kind, subresource: str) -> bool:
    return subresource in ("", "status", "scale") or any(
        each.name == subresource for each in kind.subresources
    )


def _of_collection(request: Request, streaming: bool) -> str:
    if request.method in ("GET", "HEAD"):
        return "WATCH" if streaming or "watch=" in request.query else "LIST"
    return "DELETECOLLECTION" if request.method == "DELETE" else request.method
