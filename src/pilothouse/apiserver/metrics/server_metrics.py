"""``/metrics``: the server's own metrics, for Prometheus.

    metrics = ServerMetrics(requests=…, shares=…, catalog=…, cache=…, fanout=…, store=…)
    metrics.add(audit_families)
    core.serve(PATH, metrics.answer)

Names are kube-apiserver's where it has them, else begin with ``pilothouse_``. Counters are plain numbers that
are rendered only here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import pilothouse
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController, PriorityQueue, SeatPool
from pilothouse.apiserver.metrics import process_metrics
from pilothouse.apiserver.metrics.request_metrics import RequestCounters, RequestSeries
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.storage.fanout import WatchFanout
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.prometheus_text import CONTENT_TYPE, counter, gauge, histogram, labels
from pilothouse.meta.errors import StatusError
from pilothouse.store.interface import StoreError
from pilothouse.store.store_health import condition_of
from pilothouse.store.timed_store import TimedStore, grouping

PATH = "/metrics"
PATIENCE = 2.0
"""Seconds to wait for the store's revision. A scrape must also report a store that does not answer."""

Families = Callable[[], Iterable[str]]
_KINDS = {"reads": "readOnly", "mutations": "mutating"}


class ServerMetrics:
    def __init__(
        self,
        *,
        requests: RequestCounters,
        shares: FlowController,
        catalog: KindCatalog,
        cache: WatchCache,
        fanout: WatchFanout,
        store: TimedStore,
    ) -> None:
        self._cache = cache
        self._store = store
        self._sources: list[Families] = [
            lambda: request_families(requests),
            lambda: share_families(shares),
            lambda: watch_families(fanout),
            lambda: object_families(catalog, cache),
            lambda: store_families(store),
            process_metrics.families,
        ]

    def add(self, source: Families) -> None:
        self._sources.append(source)

    async def answer(self, request: Request) -> Response:
        refuse_writes(request)
        families = [_build(), *await self._position()]
        for source in self._sources:
            families.extend(source())
        return Response(200, "".join(families).encode(), CONTENT_TYPE)

    async def _position(self) -> list[str]:
        """The revision of the cache, and its distance to the store's."""
        revision = self._cache.revision
        gauges = [gauge("pilothouse_cache_revision", "The revision that the cache shows.", [("", revision)])]
        try:
            async with asyncio.timeout(PATIENCE):
                latest = await self._store.revision()
        except (StoreError, TimeoutError):
            latest = 0
        gauges.append(gauge("pilothouse_store_up", "Whether the store answers.", [("", int(latest > 0))]))
        if latest:
            lag = max(0, latest - max(revision, self._cache.revision))
            gauges.append(gauge("pilothouse_store_revision", "The store's latest revision.", [("", latest)]))
            gauges.append(
                gauge("pilothouse_cache_lag_revisions", "How far the cache is behind it.", [("", lag)])
            )
        return gauges


def refuse_writes(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise StatusError(405, "MethodNotAllowed", f"{request.method} is not supported on {request.path}")


def request_families(requests: RequestCounters) -> Iterator[str]:
    every = [(_labels(series), series) for series in requests.series()]
    yield counter(
        "apiserver_request_total",
        "Requests answered, by what they asked for and the status they got.",
        [(f'{text},code="{code}"', n) for text, series in every for code, n in sorted(series.codes.items())],
    )
    yield histogram(
        "apiserver_request_duration_seconds",
        "From the head of a request to its answer; watches are left out.",
        [(text, series.seconds) for text, series in every if series.verb != "WATCH"],
    )


def _labels(series: RequestSeries) -> str:
    return labels(
        component="apiserver",
        group=series.group,
        resource=series.resource,
        scope=series.scope,
        subresource=series.subresource,
        verb=series.verb,
        version=series.version,
    )


def share_families(shares: FlowController) -> Iterator[str]:
    bands = [(lane, band) for lane in shares.lanes for band in lane.bands.values()]
    yield gauge(
        "apiserver_current_inflight_requests",
        "Requests under way; those about leases are in neither.",
        [
            (labels(request_kind=kind), sum(band.running for band in lane.bands.values()))
            for lane in shares.lanes
            if (kind := _KINDS.get(lane.name))
        ],
    )
    yield gauge(
        "apiserver_flowcontrol_current_executing_requests",
        "Requests under way, by lane and by class of users.",
        [(_place(lane, band), band.running) for lane, band in bands],
    )
    yield gauge(
        "apiserver_flowcontrol_current_executing_seats",
        "Places that they take; a list of many objects takes several.",
        [(_place(lane, band), band.used) for lane, band in bands],
    )
    yield gauge(
        "apiserver_flowcontrol_nominal_limit_seats",
        "Places that are assured to the class; it may take open ones as well.",
        [(_place(lane, band), band.assured) for lane, band in bands if lane.limit],
    )
    yield counter(
        "apiserver_flowcontrol_rejected_requests_total",
        "Requests turned away with 429: the class had no place left, or the user had its share.",
        [
            (f'{_place(lane, band)},reason="{reason}"', number)
            for lane, band in bands
            for reason, number in (("concurrency-limit", band.crowded), ("fair-share", band.unfair))
        ],
    )


def _place(lane: SeatPool, band: PriorityQueue) -> str:
    return labels(lane=lane.name, priority_level=band.kind.value)


def watch_families(fanout: WatchFanout) -> Iterator[str]:
    yield gauge(
        "apiserver_longrunning_requests",
        "Open watches.",
        [
            (
                labels(component="apiserver", group=group, resource=resource, verb="WATCH", version=version),
                number,
            )
            for (group, version, resource), number in sorted(fanout.open().items())
        ],
    )
    yield gauge("pilothouse_watches_behind", "Watches whose client takes its time.", [("", fanout.behind)])
    yield counter(
        "apiserver_watch_events_total",
        "Events handed to watches.",
        [
            (labels(group=group, kind=kind, version=version), number)
            for (group, version, kind), number in sorted(fanout.sent.items())
        ],
    )


def object_families(catalog: KindCatalog, cache: WatchCache) -> Iterator[str]:
    counts: dict[str, int] = {}
    for resource in catalog:
        if not resource.kinds[0].virtual:
            name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            counts[name] = len(cache.collection(resource.path).items)
    yield gauge(
        "apiserver_storage_objects",
        "Objects that are stored.",
        [(labels(resource=name), number) for name, number in sorted(counts.items())],
    )


def store_families(store: TimedStore) -> Iterator[str]:
    yield histogram(
        "pilothouse_store_call_duration_seconds",
        "How long the store took.",
        [(labels(operation=call), seconds) for call, seconds in store.seconds.items()],
    )
    condition = condition_of(store)
    yield gauge("pilothouse_store_full", "Whether the store's disk is full.", [("", int(condition.full))])
    yield gauge(
        "pilothouse_store_damaged",
        "Whether the store's file is damaged.",
        [("", int(bool(condition.damage)))],
    )
    if (groups := grouping(store)) is not None:
        yield histogram(
            "pilothouse_store_commit_size", "Writes that became durable together.", [("", groups.group_sizes)]
        )
        yield histogram(
            "pilothouse_store_commit_duration_seconds",
            "How long it took to make them durable.",
            [("", groups.commit_seconds)],
        )


class AuditCounts(Protocol):
    """Numbers of audit records."""

    written: int
    dropped: int
    failures: int


def audit_families(counts: AuditCounts) -> Iterator[str]:
    yield counter("apiserver_audit_event_total", "Audit records written.", [("", counts.written)])
    yield counter(
        "apiserver_audit_error_total",
        "Audit records lost: the queue was full, or they could not be made.",
        [(labels(plugin="log"), counts.dropped)],
    )
    yield counter(
        "pilothouse_audit_write_failures_total",
        "Attempts to write to the audit log that failed.",
        [("", counts.failures)],
    )


def _build() -> str:
    text = labels(version=pilothouse.__version__)
    return gauge("pilothouse_build_info", "Which Pilothouse this is.", [(text, 1)])
