"""Each bug of the list is found within a thousand seeds; those that show at once, quickly.

The thousand begin shortly before the seed that shows the bug; those of a soak at zero.
"""

from __future__ import annotations

import os

import pytest
from tests.sim.bugs import BUGS, Bug

from pilothouse.sim.fault_schedule import FREQUENT_FAULTS
from pilothouse.sim.simulation import Cause, Failed, shrunk, simulate

WITHIN = 1000
SOAK = "PILOTHOUSE_SOAK" in os.environ


def found(bug: Bug, within: int = WITHIN) -> Failed:
    with pytest.MonkeyPatch.context() as patch:
        bug.spoil(patch)
        return _found(bug, within)


def _found(bug: Bug, within: int) -> Failed:
    first = 0 if SOAK else bug.first_seed
    for seed in range(first, first + within):
        try:
            simulate(bug.scenario, seed=seed, profile=FREQUENT_FAULTS)
        except Failed as failure:
            if bug.shows not in failure.problem:
                pytest.fail(f"a bug that nobody has put in: {failure}")
            return failure
    pytest.fail(f"{bug.name}: not found within {within} seeds")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_is_found_within_a_thousand_seeds(bug: Bug) -> None:
    assert found(bug).causes


def test_a_failure_is_told_by_what_it_takes_and_how_to_repeat_it() -> None:
    bug = next(bug for bug in BUGS if "any order" in bug.name)
    failure = found(bug, within=5)
    shorter = shrunk(failure, attempts=40)
    assert len(shorter.causes) < len(failure.causes)
    assert len(shorter.causes) <= 4, shorter
    assert "web-0 never was ready" in str(shorter)
    assert f"python -m pilothouse.sim --scenario sets --seed {failure.seed}" in str(shorter)
    told: list[Cause] = list(shorter.causes)
    assert any("create web" in str(cause) for cause in told)
