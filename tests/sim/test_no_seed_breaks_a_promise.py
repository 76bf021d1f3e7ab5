"""Many seeds, each run twice: promises hold, everything comes to rest where it should, and the two runs are the same."""

from __future__ import annotations

from math import ceil

import pytest

from pilothouse.sim.scenarios import SCENARIOS
from pilothouse.sim.simulating import Failed, shrunk, simulate_twice

QUICK = 300
"""Seeds in all, shared among the scenarios."""
LONG = 2000
_AT_ONCE = 17


_SLOW = {"elastic": 4}
"""A run of these takes so many times as long as one of the others."""


def shares(first: int, seeds: int) -> list[tuple[str, range]]:
    found = []
    common = ceil(seeds / sum(1 / _SLOW.get(name, 1) for name in SCENARIOS))
    for name in SCENARIOS:
        each = ceil(common / _SLOW.get(name, 1))
        starts = range(first, first + each, _AT_ONCE)
        found += [(name, range(start, min(start + _AT_ONCE, first + each))) for start in starts]
    return found


def hold(name: str, seeds: range) -> None:
    for seed in seeds:
        try:
            report = simulate_twice(SCENARIOS[name], seed=seed)
        except Failed as failure:
            raise shrunk(failure) from None
        assert report.writes > 0


@pytest.mark.parametrize(("name", "seeds"), shares(0, QUICK), ids=str)
def test_no_seed_breaks_a_promise(name: str, seeds: range) -> None:
    hold(name, seeds)


@pytest.mark.long
@pytest.mark.parametrize(("name", "seeds"), shares(QUICK, LONG), ids=str)
def test_no_seed_of_many_breaks_a_promise(name: str, seeds: range) -> None:
    hold(name, seeds)
