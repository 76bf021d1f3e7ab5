"""Many seeds, run once and again: invariants hold, everything comes to rest where it should, and two runs of a seed are the same."""

from __future__ import annotations

import os
from math import ceil

import pytest

from pilothouse.sim.scenarios import SCENARIOS
from pilothouse.sim.simulation import Failed, shrunk, simulate, simulate_twice

SOAK = "PILOTHOUSE_SOAK" in os.environ
QUICK = 150
"""Seeds in all, shared among the scenarios."""
LONG = 2000 if SOAK else 250
AGAIN = 1 if SOAK else 10
"""In a soak every seed is run twice, else one in ten; of the quick ones, one in five."""
_QUICK_AGAIN = 5
_AT_ONCE = 17


_SLOW = {
    "drains": 12,
    "elastic": 6,
    "clusters": 8,
    "plans": 4,
    "rules": 4,
    "moves": 3,
    "workloads": 3,
    "house": 2,
    "sets": 2,
}
"""A run of these takes so many times as long as one of the others."""


def shares(first: int, seeds: int) -> list[tuple[str, range]]:
    found = []
    common = ceil(seeds / sum(1 / _SLOW.get(name, 1) for name in SCENARIOS))
    for name in SCENARIOS:
        each = ceil(common / _SLOW.get(name, 1))
        starts = range(first, first + each, _AT_ONCE)
        found += [(name, range(start, min(start + _AT_ONCE, first + each))) for start in starts]
    return found


def hold(name: str, seeds: range, *, again: int) -> None:
    """Promises hold; of every so many seeds one is run twice."""
    for seed in seeds:
        run = simulate if seed % again else simulate_twice
        try:
            report = run(SCENARIOS[name], seed=seed)
        except Failed as failure:
            raise shrunk(failure) from None
        assert report.writes > 0


@pytest.mark.parametrize(("name", "seeds"), shares(0, QUICK), ids=str)
def test_no_seed_breaks_a_promise(name: str, seeds: range) -> None:
    hold(name, seeds, again=_QUICK_AGAIN)


@pytest.mark.long
@pytest.mark.parametrize(("name", "seeds"), shares(QUICK, LONG), ids=str)
def test_no_seed_of_many_breaks_a_promise(name: str, seeds: range) -> None:
    hold(name, seeds, again=AGAIN)
