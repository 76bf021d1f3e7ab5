"""The composition of ``pilothouse rule backtest``: where the series come from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from pilothouse.base.clock import SystemClock
from pilothouse.rules.backtest import queries_of
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.series_selectors import SeriesSelector
from pilothouse.rules.providers.bounded_http import BoundedHttp, FetchFailed
from pilothouse.rules.recorded_series import RecordingError, recorded_series
from pilothouse.rules.series_store import WantedSeries

_LONGEST: Final = 2**28
_SECONDS: Final = 120.0
_MOST_POINTS: Final = 10_900
"""A little less than Prometheus returns of one series."""
_LEAST_STEP: Final = 15.0


def series_of_file(content: bytes, rules: Sequence[RuleTerms]) -> MemorySeries:
    """Raises ``RecordingError``, ``QueryError``, ``NotInSubset``."""
    return recorded_series(content, WantedSeries(queries_of(rules)))


def series_of_prometheus(url: str, seconds: float, rules: Sequence[RuleTerms]) -> MemorySeries:
    """What a Prometheus has of the last so many seconds. Raises as ``series_of_file``."""
    return asyncio.run(_fetch(url.rstrip("/").removesuffix("/api/v1"), seconds, rules))


async def _fetch(url: str, seconds: float, rules: Sequence[RuleTerms]) -> MemorySeries:
    queries = queries_of(rules)
    selectors = sorted({_text(each.selector) for query in queries for each in query.selections})
    end = SystemClock().now()
    step = max(_LEAST_STEP, seconds / _MOST_POINTS)
    times = {"start": f"{end - seconds:.3f}", "end": f"{end:.3f}", "step": f"{step:.0f}"}
    pages = []
    async with BoundedHttp() as http:
        for selector in selectors:
            try:
                page = await http.get(
                    f"{url}/api/v1/query_range",
                    query={"query": selector, **times},
                    longest=_LONGEST,
                    seconds=_SECONDS,
                )
            except FetchFailed as problem:
                raise RecordingError(str(problem)) from None
            if page.status != 200:
                raise RecordingError(
                    f"{url} answers HTTP {page.status}: {page.body[:300].decode(errors='replace')}"
                )
            pages.append(page.body)
    return recorded_series(b"[" + b",".join(pages) + b"]", WantedSeries(queries))


def _text(selector: SeriesSelector) -> str:
    quoted = [
        f"{each.label}{each.comparison}{msgspec.json.encode(each.value).decode()}"
        for each in selector.matchers
    ]
    return f"{{{','.join(quoted)}}}"
