"""Generated queries have the results, or the errors, of Debian's Prometheus over the same samples."""

from __future__ import annotations

import json
import math
import os
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from random import Random
from urllib.error import HTTPError

import pytest
from tests.kit.prometheus import Prometheus
from tests.kit.tools import MissingTool, find
from tests.rules.promql.generated_queries import (
    NOW,
    QueryWriter,
    generated_series,
    memory_series,
    openmetrics,
)

from pilothouse.rules.join_labels import JoinLabels
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import compile_query
from pilothouse.rules.promql.query_errors import QueryError
from pilothouse.rules.promql.query_evaluation import evaluate
from pilothouse.rules.providers.prometheus import PrometheusProvider, PrometheusSettings
from pilothouse.rules.samples import QueryFailure

pytestmark = pytest.mark.long
"""Prometheus is fetched for the long suite alone."""

SEED = 17
MANY = 6000 if os.environ.get("PILOTHOUSE_SOAK") else 2000
Result = dict[frozenset[tuple[str, str]], float]


@pytest.fixture(scope="module")
def series() -> MemorySeries:
    return memory_series(list(generated_series(Random(SEED))))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    try:
        promtool = find("promtool")
        server = Prometheus("scrape_configs: []\n", folder, ["--storage.tsdb.retention.time=100y"])
    except MissingTool as missing:
        pytest.skip(str(missing))
    text = folder / "series.om"
    text.write_text(openmetrics(list(generated_series(Random(SEED)))))
    argv = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "tsdb")]
    subprocess.run(argv, check=True, capture_output=True)
    with server:
        assert server.process is not None
        server.process.wait_until(lambda: _ready(server), seconds=60)
        yield server


def _ready(server: Prometheus) -> bool:
    try:
        return b"Ready" in server.page("/-/ready")
    except OSError:
        return False


def theirs(server: Prometheus, query: str, at: float) -> Result | str:
    """The result, or the error."""
    asked = urllib.parse.urlencode({"query": query, "time": f"{at:.3f}"})
    try:
        with urllib.request.urlopen(f"{server.url}/api/v1/query?{asked}", timeout=30) as answer:
            found = json.loads(answer.read())["data"]
    except HTTPError as problem:
        return str(json.loads(problem.read())["error"])
    if found["resultType"] == "scalar":
        return {frozenset(): float(found["result"][1])}
    return {frozenset(each["metric"].items()): float(each["value"][1]) for each in found["result"]}


def ours(series: MemorySeries, query: str, at: float) -> Result | str:
    try:
        found = evaluate(compile_query(query), series, at)
    except QueryError as problem:
        return str(problem)
    return {each.key: value for each, value in zip(found.labels, found.values.tolist(), strict=True)}


def same(left: Result | str, right: Result | str) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str)
    return left.keys() == right.keys() and all(_close(left[key], right[key]) for key in left)


def _close(left: float, right: float) -> bool:
    return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-7, abs_tol=1e-6)


def compare(prometheus: Prometheus, series: MemorySeries, count: int, seed: int) -> tuple[int, int]:
    """How many have results, and how many an error; fails at the first difference."""
    rng = Random(seed)
    writer = QueryWriter(rng)
    results = errors = 0
    for _ in range(count):
        query = writer.query()
        at = NOW + rng.choice((0, 0, 0.5, 15, -600, -3000, 300))
        expected, found = theirs(prometheus, query, at), ours(series, query, at)
        assert same(expected, found), f"{query} at {at}\nPrometheus: {expected}\nours: {found}"
        results += isinstance(expected, dict) and bool(expected)
        errors += isinstance(expected, str)
    return results, errors


def test_five_hundred_queries_agree(prometheus: Prometheus, series: MemorySeries) -> None:
    results, _ = compare(prometheus, series, 500, seed=1)
    assert results > 250


def test_thousands_of_queries_agree(prometheus: Prometheus, series: MemorySeries) -> None:
    results, errors = compare(prometheus, series, MANY, seed=2)
    assert results > MANY // 2
    assert errors > 3


@pytest.mark.parametrize("age", [299_999, 300_000, 300_001])
def test_the_lookback_ends_at_the_same_millisecond(
    prometheus: Prometheus, series: MemorySeries, age: int
) -> None:
    newest = max(labels_time for _, labels_time in _last_times(series))
    at = (newest + age) / 1000
    for query in ("used", "count_over_time(used[5m])", "rate(req_total[5m])"):
        assert same(theirs(prometheus, query, at), ours(series, query, at)), query


def _last_times(series: MemorySeries) -> Iterator[tuple[str, int]]:
    for labels, times, _ in series.samples(compile_query("used").selections[0].selector):
        yield str(labels), int(times[-1])


async def test_the_provider_learns_the_times_of_samples(prometheus: Prometheus, series: MemorySeries) -> None:
    """Those of the older of two samples; our own evaluation knows them anyway."""
    provider = PrometheusProvider(PrometheusSettings(prometheus.url, labels=JoinLabels(claim=("pvc",))))
    answer = (await provider.query_at(["used / cap"], NOW))["used / cap"]
    await provider.close()
    assert not isinstance(answer, QueryFailure), answer
    found = {frozenset(each.labels.items()): each.time for each in answer}
    expected = evaluate(compile_query("used / cap"), series, NOW)
    assert found == {
        each.key: time / 1000 for each, time in zip(expected.labels, expected.times.tolist(), strict=True)
    }
    assert min(found.values()) < NOW
