"""The store keeps what expressions select, as far back as they look, and no more than fits."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import numpy as np
import pytest

from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import compile_query
from pilothouse.rules.promql.query_evaluation import evaluate
from pilothouse.rules.promql.vectors import STALE
from pilothouse.rules.series_store import SeriesStore

START = 1_700_000_000_000


def kept(*expressions: str, largest: int = 2**26) -> SeriesStore:
    store = SeriesStore(largest)
    store.keep([compile_query(each) for each in expressions])
    return store


def add(store: SeriesStore, time: int, /, target: str = "n1", **values: Any) -> None:
    """One sample of ``used`` for each claim named."""
    samples = {
        store.label_sets.get({"__name__": "used", "claim": name}): each for name, each in values.items()
    }
    store.add(target, START + time, samples)


def claims(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, 1.0)


def values(store: SeriesStore, expression: str, time: int) -> dict[str, float]:
    found = evaluate(compile_query(expression), store, (START + time) / 1000)
    named = (each.labels.get("claim", "") for each in found.labels)
    return dict(zip(named, found.values.tolist(), strict=True))


def test_a_series_that_is_gone_from_its_page_is_stale_at_once() -> None:
    store = kept("used")
    add(store, 0, a=1, b=2)
    add(store, 15_000, a=3)
    assert values(store, "used", 14_999) == {"a": 1, "b": 2}
    assert values(store, "used", 15_000) == {"a": 3}
    add(store, 30_000, b=5)
    assert values(store, "used", 30_000) == {"b": 5}


def test_frequent_scrapes_replace_each_other_and_the_newest_counts() -> None:
    store = kept("count_over_time(used[1h])")
    for second in range(0, 600, 2):
        add(store, second * 1000, a=second)
    assert values(store, "used", 600_000) == {"a": 598}
    assert values(store, "count_over_time(used[1h])", 600_000)["a"] < 50


def test_a_series_that_came_and_went_between_kept_scrapes_is_not_present() -> None:
    store = kept("used")
    add(store, 0, a=1, b=1)
    add(store, 2_000, a=1)
    add(store, 4_000, a=1)
    assert values(store, "used", 5_000) == {"a": 1}


def test_what_is_older_than_any_expression_looks_is_dropped() -> None:
    store = kept("used")
    for minute in range(600):
        add(store, minute * 60_000, a=minute, **claims(f"pod{minute}"))
    assert store.series < 40
    assert store.size < 100_000
    counted = store.size
    store.retain(["n1"])
    assert store.size == counted, "it is counted as it grows"
    assert values(store, "used", 599 * 60_000) == {"a": 599, "pod599": 1}


def test_what_is_not_wanted_any_more_is_dropped() -> None:
    store = kept("used")
    add(store, 0, a=1, b=2)
    store.keep([compile_query('used{claim="b"}')])
    assert values(store, "used", 0) == {"b": 2}
    store.keep([compile_query("other")])
    assert store.series == 0
    assert len(store.label_sets) == 0


def test_a_metric_that_does_not_fit_is_refused_as_a_whole_and_others_stay() -> None:
    store = kept("used", "small", largest=200_000)
    small = store.label_sets.get({"__name__": "small"})
    store.add("n2", START, {small: 1.0})
    add(store, 0, **claims(*(f"c{number}" for number in range(1000))))
    assert store.refused == {"used"}
    assert store.size < 200_000
    assert values(store, "small", 0) == {"": 1}
    add(store, 1000, a=1)
    assert values(store, "used", 1000) == {}


def test_pods_with_too_many_series_are_dropped_and_not_the_metric() -> None:
    store = kept("used", largest=200_000)
    add(store, 0, node=1)
    for each, count in (("modest", 10), ("greedy", 1000)):
        found = {
            store.label_sets.get({"__name__": "used", "claim": f"{each}{number}"}): 1.0
            for number in range(count)
        }
        store.add(f"pod/{each}/p", START, found, each)
    assert store.refused == set()
    assert store.refused_namespaces == {"greedy"}
    assert values(store, "used", 0).keys() == {"node", *(f"modest{number}" for number in range(10))}
    store.retain(["n1", "pod/modest/p"])
    assert store.refused_namespaces == set()


@pytest.mark.parametrize(
    "labels",
    [{"x": "y" * 15_000}, {"x": "\N{SHIP}" * 4_000}, {f"label{number}": "y" for number in range(60)}],
)
def test_labels_that_are_long_or_many_count_as_what_they_take(labels: dict[str, str]) -> None:
    store = kept("max_over_time(used[1h])")
    tracemalloc.start()
    try:
        for step in range(10):
            found = (
                {"__name__": "used", **{name: f"{step}-{number}{text}" for name, text in labels.items()}}
                for number in range(20)
            )
            store.add("n1", START + step * 15_000, {store.label_sets.get(each): 1.0 for each in found})
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert store.size > taken / 3


def test_series_with_the_same_labels_on_two_pages_count_once() -> None:
    store = kept("used / used")
    pod = {store.label_sets.get({"__name__": "used", "claim": name}): 2.0 for name in "ab"}
    store.add("pod/db/p 1", START, pod, "db")
    store.add("pod/db/p 2", START, pod, "db")
    add(store, 0, a=1)
    assert values(store, "used", 0) == {"a": 1, "b": 2}
    assert values(store, "used / used", 0) == {"a": 1, "b": 1}


def test_targets_that_are_gone_take_their_series_with_them() -> None:
    store = kept("used")
    add(store, 0, target="n1", a=1)
    add(store, 0, target="n2", b=1)
    store.retain(["n2"])
    assert values(store, "used", 0) == {"b": 1}


def test_a_clock_that_is_set_back_does_not_hide_new_samples() -> None:
    store = kept("used")
    add(store, 100_000, a=1)
    add(store, 50_000, a=2)
    assert values(store, "used", 50_000) == {"a": 2}


@pytest.mark.parametrize("seed", range(20))
def test_the_store_and_plain_series_evaluate_alike(seed: int) -> None:
    rng = Random(seed)
    expressions = (
        "used",
        "rate(used[5m])",
        "avg_over_time(used[10m] offset 2m)",
        "count_over_time(used[1h])",
    )
    store = kept(*expressions)
    plain: dict[str, tuple[list[int], list[float]]] = {}
    present: set[str] = set()
    for step in range(200):
        time = step * 15_000
        found: dict[str, Any] = {name: float(rng.randrange(100)) for name in "abcde" if rng.random() < 0.9}
        add(store, time, **found)
        for name in found.keys() | present:
            times, numbers = plain.setdefault(name, ([], []))
            times.append(START + time)
            numbers.append(found.get(name, STALE))
        present = set(found)
    series = MemorySeries()
    for name, (times, numbers) in plain.items():
        series.add({"__name__": "used", "claim": name}, times, numbers)
    for expression in expressions:
        query = compile_query(expression)
        ours, theirs = (
            evaluate(query, store, (START + 2_990_000) / 1000),
            evaluate(query, series, (START + 2_990_000) / 1000),
        )
        expected = {
            each.key: value for each, value in zip(theirs.labels, theirs.values.tolist(), strict=True)
        }
        assert {
            each.key: value for each, value in zip(ours.labels, ours.values.tolist(), strict=True)
        } == expected
        assert np.array_equal(np.sort(ours.times), np.sort(theirs.times))
