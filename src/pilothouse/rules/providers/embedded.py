"""The provider that needs no Prometheus: it scrapes nodes, pilots and pods, and evaluates by itself.

    provider = EmbeddedProvider(transport, ScrapeTargets(nodes.list, pods.list, claims.list), clock)
    provider.keep(["100 * used_bytes / capacity_bytes"])
    await provider.run()                                # in every manager, so that a new leader has a history
    await provider.query(["100 * used_bytes / capacity_bytes"], now)

A query scrapes first, unless that was just done, so that a rule sees the present. Each page is bounded in
time and size; a target that fails is left alone for a while, and its series are stale meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.transport import ClientRequest, Transport, TransportError
from pilothouse.rules.metrics_pages import parse_series, read_page
from pilothouse.rules.promql.label_sets import NAME, LabelSet
from pilothouse.rules.promql.queries import Query, compile_query
from pilothouse.rules.promql.query_errors import NotInSubset, QueryError
from pilothouse.rules.promql.query_evaluation import evaluate
from pilothouse.rules.promql.vectors import Vector
from pilothouse.rules.providers.bounded_http import BoundedHttp, FetchFailed
from pilothouse.rules.providers.scrape_targets import ScrapeTarget, ScrapeTargets
from pilothouse.rules.samples import Answer, QueryFailure, Sample
from pilothouse.rules.series_store import NodeSeries, SeriesStore, WantedSeries, size_of

INTERVAL: Final = 15.0
"""Seconds between two scrapes while nothing is asked."""
_FRESH: Final = 1.0
"""Seconds for which a scrape is as good as another."""
_PAGE_SECONDS: Final = 5.0
_ALL_SECONDS: Final = 15.0
_LONGEST_NODE: Final = 2**25
_LONGEST_POD: Final = 2**22
_MOST_NODE_SERIES: Final = 200_000
_MOST_POD_SERIES: Final = 10_000
_NODES_AT_ONCE: Final = 2
_PODS_AT_ONCE: Final = 8
_OF_NAMESPACE_AT_ONCE: Final = 4
"""Pods of one namespace must not keep those of others from being read, by slow pages at ever other paths."""
_MOST_REMEMBERED: Final = 2**25
"""Of the text of pods' series, in bytes: what is not remembered is parsed again by the next scrape."""
_LONGEST_WAIT: Final = 300.0

T = TypeVar("T")

log = logging.getLogger(__name__)


class ScrapeCounts(msgspec.Struct):
    """For metrics pages."""

    scrapes: int = 0
    failures: int = 0
    foreign_series: int = 0
    """Series, by page and scrape, that spoke of what is not their target's."""
    malformed_lines: int = 0
    dropped_lines: int = 0
    """Lines beyond a page's limit."""


class _TargetState:
    """What is known of a target's page."""

    def __init__(self) -> None:
        self.target: ScrapeTarget | None = None
        self.wanted: WantedSeries | None = None
        self.series: dict[bytes, LabelSet | None] = {}
        """By their text; None for those that are not wanted or not the target's own."""
        self.foreign: set[bytes] = set()
        self.remembered = 0
        """The length of the text of a pod's series."""
        self.failures = 0
        self.not_before = 0.0
        self.seconds = 0.0
        """How long its last page took."""

    def follow(self, target: ScrapeTarget, wanted: WantedSeries) -> None:
        """Forget the series that may be others since what the target owns, or what is wanted, has changed.

        Of a node with thousands of volumes, a pod that comes or goes concerns a few.
        """
        if self.wanted is not wanted or self.target is None:
            self.series, self.foreign = {}, set()
        elif self.target != target:
            change = target.change_since(self.target)
            # Those that are not the target's, or not wanted, are few, and what they name is not kept.
            self.series = {
                text: labels
                for text, labels in self.series.items()
                if labels is not None and change is not None and not change.concerns(labels.labels)
            }
            self.foreign = set()
        self.target, self.wanted = target, wanted


class EmbeddedProvider:
    def __init__(self, transport: Transport, targets: ScrapeTargets, clock: Clock) -> None:
        self._transport = transport
        self._targets = targets
        self._clock = clock
        self._http = BoundedHttp()
        self._store = SeriesStore()
        self._queries: dict[str, Query | QueryFailure] = {}
        self._kept: list[Query] = []
        self._states: dict[str, _TargetState] = {}
        self._scraping = asyncio.Lock()
        self._using = asyncio.Lock()
        """Held by who reads or changes the store, which a thread may do."""
        self._scraped = float("-inf")
        self._reached = 0
        self._failed = ""
        self._remembered = 0
        self.counts = ScrapeCounts()

    @property
    def series(self) -> int:
        """How many are kept."""
        return self._store.series

    def keep(self, expressions: Collection[str]) -> None:
        """Collect what these select, from the next scrape on, and nothing else."""
        self._queries = {each: self._queries.get(each) or _compiled(each) for each in sorted(expressions)}

    async def run(self) -> None:
        """Scrape until cancelled."""
        try:
            while True:
                await self.scrape(INTERVAL)
                await asyncio.sleep(INTERVAL)
        finally:
            await self.close()

    async def close(self) -> None:
        """Close connections."""
        await self._http.close()

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        unknown = [each for each in expressions if each not in self._queries]
        if unknown:
            self.keep([*self._queries, *unknown])
        await self.scrape(0.0 if unknown else _FRESH)
        # The samples are newer than the caller's time.
        now = max(now, self._clock.now())
        return await self._apart(lambda: self._answers(tuple(dict.fromkeys(expressions)), now))

    async def _apart(self, work: Callable[[], T]) -> T:
        """In a thread, and nothing else uses the store until it is done, even if the caller is cancelled."""
        async with self._using:
            task = asyncio.ensure_future(asyncio.to_thread(work))
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                await asyncio.wait([task])
                raise

    async def scrape(self, fresh: float) -> None:
        """Read all pages, unless that was done within so many seconds."""
        async with self._scraping:
            if self._clock.monotonic() - self._scraped < fresh:
                return
            queries = [each for each in self._queries.values() if isinstance(each, Query)]
            if queries != self._kept:
                self._kept = queries
                await self._apart(lambda: self._store.keep(queries))
            self._reached, self._failed = 0, ""
            if queries:
                await self._scrape_all(self._targets.list())
            self._scraped = self._clock.monotonic()

    async def _scrape_all(self, targets: Sequence[ScrapeTarget]) -> None:
        known = {target.id for target in targets}
        async with self._using:
            self._store.retain(known, set(map(_namespace, targets)))
            # Nothing of the others would be kept.
            targets = [each for each in targets if not self._is_refused(each)]
            read = {target.id for target in targets}
            self._states = {each: state for each, state in self._states.items() if each in read}
            self._remembered = sum(state.remembered for state in self._states.values())
        slots = {
            "node": asyncio.Semaphore(_NODES_AT_ONCE),
            "pod": asyncio.Semaphore(_PODS_AT_ONCE),
        }
        shares = {each: asyncio.Semaphore(_OF_NAMESPACE_AT_ONCE) for each in map(_namespace, targets)}
        due = [each for each in targets if self._state(each).not_before <= self._clock.monotonic()]
        # Slow pages must not keep those from being read that take no time.
        due.sort(key=lambda target: self._state(target).seconds)
        tasks = [
            asyncio.ensure_future(self._scrape_one(each, shares[_namespace(each)], slots[each.kind]))
            for each in due
        ]
        if not tasks:
            return
        try:
            _, late = await asyncio.wait(tasks, timeout=_ALL_SECONDS)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for target, task in zip(due, tasks, strict=True):
            if task.cancelled():
                await self._fail(target, f"not reached within {_ALL_SECONDS:g} seconds")
            elif (problem := task.exception()) is not None:
                raise problem

    def _state(self, target: ScrapeTarget) -> _TargetState:
        return self._states.setdefault(target.id, _TargetState())

    async def _scrape_one(
        self, target: ScrapeTarget, share: asyncio.Semaphore, slot: asyncio.Semaphore
    ) -> None:
        async with share, slot:
            if self._is_refused(target):
                return
            self.counts.scrapes += 1
            state = self._state(target)
            since = self._clock.monotonic()
            try:
                page = await self._page(target)
            except (FetchFailed, TransportError, AccessError) as problem:
                await self._fail(target, str(problem))
                return
            finally:
                state.seconds = self._clock.monotonic() - since
            time = round(self._clock.now() * 1000)
            wanted = self._store.wanted
            most = _MOST_NODE_SERIES if target.kind == "node" else _MOST_POD_SERIES
            content = await asyncio.to_thread(
                read_page, page, lambda name: bool(wanted.selections(name.decode(errors="replace"))), most
            )
            self.counts.malformed_lines += content.malformed
            self.counts.dropped_lines += content.too_many
            state.failures, state.not_before = 0, 0.0
            self._reached += 1
            await self._apart(lambda: self._take(target, state, time, content.samples))

    def _is_refused(self, target: ScrapeTarget) -> bool:
        """Whether it is a pod of a namespace that has too many series."""
        return _namespace(target) in self._store.refused_namespaces

    async def _page(self, target: ScrapeTarget) -> bytes:
        if target.url:
            page = await self._http.get(target.url, longest=_LONGEST_POD, seconds=_PAGE_SECONDS)
            status, body = page.status, page.body
        else:
            path = f"/api/v1/nodes/{quote(target.labels['node'], safe='')}/proxy/metrics"
            try:
                async with asyncio.timeout(_PAGE_SECONDS):
                    answer = await self._transport.request(ClientRequest("GET", path, longest=_LONGEST_NODE))
            except TimeoutError:
                raise FetchFailed(f"no answer within {_PAGE_SECONDS:g} seconds") from None
            status, body = answer.status, answer.body
        if status != 200:
            raise FetchFailed(f"HTTP {status}")
        return body

    async def _fail(self, target: ScrapeTarget, message: str) -> None:
        """Its series are stale from now on, and it is asked again later."""
        state = self._state(target)
        if not state.failures:
            log.warning("the metrics of %s can't be read: %s", target.id, message)
        self.counts.failures += 1
        self._failed = f"{target.id}: {message}"
        state.failures += 1
        wait = min(_LONGEST_WAIT, INTERVAL * 2 ** min(state.failures - 1, 6)) if state.failures > 1 else 0.0
        state.not_before = self._clock.monotonic() + wait
        async with self._using:
            self._store.add(target.id, round(self._clock.now() * 1000), {}, _namespace(target))

    def _take(
        self, target: ScrapeTarget, state: _TargetState, time: int, samples: Mapping[bytes, float]
    ) -> None:
        if self._is_refused(target):
            return
        state.follow(target, self._store.wanted)
        known: dict[bytes, LabelSet | None] = {}
        found: dict[LabelSet, float] = {}
        added = 0
        for text, value in samples.items():
            labels = state.series[text] if text in state.series else self._labels(target, state, text)
            known[text] = labels
            if labels is None:
                continue
            if text not in state.series and labels not in found:
                added += size_of(labels)
            found[labels] = value
            if added > self._store.largest:
                # They don't fit: what they are of is refused.
                break
        state.foreign &= known.keys()
        self.counts.foreign_series += len(state.foreign)
        size = sum(map(len, known)) if target.kind == "pod" else 0
        refused = len(self._store.refused)
        self._store.add(target.id, time, found, _namespace(target))
        is_refused = len(self._store.refused) > refused or self._is_refused(target)
        if is_refused or self._remembered - state.remembered + size > _MOST_REMEMBERED:
            known, size = {}, 0
            state.foreign.clear()
        self._remembered += size - state.remembered
        state.series, state.remembered = known, size

    def _labels(self, target: ScrapeTarget, state: _TargetState, text: bytes) -> LabelSet | None:
        series = parse_series(text)
        if series is None:
            self.counts.malformed_lines += 1
            return None
        if series[NAME] in self._store.refused:
            return None
        owned = target.owned(series)
        if owned is None:
            state.foreign.add(text)
            return None
        return self._store.label_sets.get(owned) if self._store.wanted.selects(owned) else None

    def _answers(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        if not self._reached:
            why = f"; the last failure: {self._failed}" if self._failed else ""
            return dict.fromkeys(
                expressions, QueryFailure("ProviderUnavailable", f"no metrics page could be read{why}"[:1000])
            )
        return {each: self._answer(self._queries.get(each), now) for each in expressions}

    def _answer(self, query: Query | QueryFailure | None, now: float) -> Answer:
        if query is None:
            return QueryFailure("ProviderUnavailable", "its series are not collected yet")
        if isinstance(query, QueryFailure):
            return query
        for name in self._store.refused:
            if any(each.selector.name in ("", name) for each in query.selections):
                return QueryFailure(
                    "TooManySamples",
                    f"the series of {name}, as far back as rules look, take more than the embedded provider "
                    "may keep; configure a Prometheus",
                )
        try:
            found = self._evaluated(query, now)
        except QueryError as problem:
            return QueryFailure("QueryRefused", str(problem))
        except NotInSubset as problem:
            return _unsupported(problem)
        return [
            Sample(labels.labels, value, time / 1000)
            for labels, value, time in zip(
                found.labels, found.values.tolist(), found.times.tolist(), strict=True
            )
        ]

    def _evaluated(self, query: Query, now: float) -> Vector:
        """By nodes' pages alone, if pods' pages make it an error: a pod that says something twice must not
        end a rule about what nodes measure. Not if it reads what only pods measure, as its result would be
        another without them. Raises ``QueryError`` and ``NotInSubset``."""
        try:
            return evaluate(query, self._store, now)
        except QueryError:
            if not all(self._store.is_measured_by_nodes(each.selector.name) for each in query.selections):
                raise
            return evaluate(query, NodeSeries(self._store), now)


def _namespace(target: ScrapeTarget) -> str:
    """Of a pod; empty for a node."""
    return target.labels["namespace"] if target.kind == "pod" else ""


def _compiled(text: str) -> Query | QueryFailure:
    try:
        return compile_query(text)
    except QueryError as problem:
        return QueryFailure("QueryRefused", str(problem))
    except NotInSubset as problem:
        return _unsupported(problem)


def _unsupported(problem: NotInSubset) -> QueryFailure:
    return QueryFailure(
        "NotSupported", f"the embedded provider can't evaluate {problem}; configure a Prometheus"
    )
