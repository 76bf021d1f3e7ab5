"""Aliases of volumes, evaluated over the figures that every kubelet reports, and the alert that looks ahead."""

from __future__ import annotations

from typing import Any

import pytest
from tests.rules.test_rules_are_tested_with_fixtures import GIB, expect, fixture, rule, series

from pilothouse.api.openstorage.aliases import ALIASES
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import compile_query
from pilothouse.rules.promql.query_evaluation import evaluate
from pilothouse.rules.rule_fixtures import FixtureOutcome, run_fixtures

START = 1_700_000_000
CLAIM = {"namespace": "db", "persistentvolumeclaim": "data", "node": "n1"}


def reported(minutes: int, **figures: tuple[float, float]) -> MemorySeries:
    """One sample a minute of each figure: its first value, and how much it changes in a minute."""
    found = MemorySeries()
    times = [(START + 60 * minute) * 1000 for minute in range(minutes + 1)]
    for name, (first, change) in figures.items():
        values = [first + change * minute for minute in range(minutes + 1)]
        found.add({"__name__": f"kubelet_volume_stats_{name}", **CLAIM}, times, values)
    return found


def value(alias: str, series: MemorySeries, minutes: int) -> float | None:
    found = evaluate(compile_query(ALIASES[alias]), series, START + 60 * minutes)
    return float(found.values[0]) if len(found.values) else None


def test_the_part_of_bytes_and_inodes_in_use_and_the_size() -> None:
    found = reported(1, used_bytes=(3e9, 0), capacity_bytes=(4e9, 0), inodes_used=(50, 0), inodes=(200, 0))
    assert value("VolumeUsagePercent", found, 1) == 75
    assert value("VolumeInodesPercent", found, 1) == 25
    assert value("VolumeCapacityGB", found, 1) == 4


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (20, None),  # not seen for half an hour
        (31, (60e9 - 31e9) / (1e9 / 60)),
        (50, (60e9 - 50e9) / (1e9 / 60)),
    ],
)
def test_the_seconds_to_full_are_by_the_slope_of_an_hour_half_of_which_was_seen(
    minutes: int, expected: float | None
) -> None:
    found = reported(minutes, used_bytes=(40e9, 1e9), available_bytes=(60e9, -1e9))
    seconds = value("VolumeSecondsToFull", found, minutes)
    assert seconds == (pytest.approx(expected) if expected is not None else None)


def test_a_volume_that_does_not_fill_is_never_full() -> None:
    found = reported(60, used_bytes=(40e9, -1e8), available_bytes=(60e9, 1e8))
    assert value("VolumeSecondsToFull", found, 60) is None


def looks_ahead() -> dict[str, Any]:
    free = "kubelet_volume_stats_available_bytes"
    return {
        "for": 600,
        "expressions": [
            {
                "key": f"100 * {free} / kubelet_volume_stats_capacity_bytes",
                "operator": "Lt",
                "values": ["30"],
            },
            {"key": f"predict_linear({free}[1h], 14 * 86400)", "operator": "Lt", "values": ["0"]},
        ],
    }


@pytest.mark.parametrize(
    ("free", "state"),
    [
        (f"{2 * GIB}-{4000000}x240", "Triggered"),  # under 30 %, and empty within two weeks
        (f"{2 * GIB}x240", "Normal"),  # under 30 %, and stays so
        (f"{4 * GIB}-{1000000}x240", "Normal"),  # more than 30 %
    ],
)
def test_an_alert_looks_two_weeks_ahead(free: str, state: str) -> None:
    """px-D11: less than 30 % free and empty in 14 days by the slope of an hour, for ten minutes."""
    test = fixture(f"{GIB}x240", rule_test=[expect("58m", state, [])])
    test["input_series"].append(series("kubelet_volume_stats_available_bytes", free))
    alert = rule(conditions=looks_ahead(), enforcement="recommend")
    assert run_fixtures({"tests": [test]}, [alert]) == FixtureOutcome(1, ())
