"""For every scenario: the manager crashes before, and after, each of the writes that it makes, and all comes out right.

Exhaustive: the run in which nothing goes wrong tells how many writes there are, and each is struck in a run of its own. Leases
are left out, since a crash there is a crash between two writes, and each of those is struck anyway.
"""

from __future__ import annotations

import msgspec
import pytest

from pilothouse.sim.faults import Fault, Mishap, Place
from pilothouse.sim.fleet import Scenario
from pilothouse.sim.scenarios import SCENARIOS
from pilothouse.sim.simulating import struck

SEED = 3
_FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
_LEASES = "/leases"


def alone(name: str) -> Scenario:
    """With one manager: nobody else does what it left undone."""
    return msgspec.structs.replace(SCENARIOS[name], managers=1)


def writes(scenario: Scenario) -> list[int]:
    """The numbers of the writes that are no lease's, in a run in which nothing goes wrong."""
    report = struck(scenario, seed=SEED)
    mine = [line.split() for line in report.written if line.split()[1].startswith("m0-")]
    return [number for number, (_, _, _, path, _) in enumerate(mine) if _LEASES not in path]


def crash_at(scenario: Scenario, number: int) -> None:
    for fault in _FAULTS:
        report = struck(scenario, Mishap("m0", Place.WRITE, number, fault), seed=SEED)
        assert [each.fault for each in report.mishaps] == [fault]


@pytest.mark.parametrize("name", SCENARIOS)
def test_some_writes_of_each_scenario(name: str) -> None:
    scenario = alone(name)
    found = writes(scenario)
    assert len(found) > 5
    for number in found[:: max(1, len(found) // 5)]:
        crash_at(scenario, number)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_write_of_each_scenario(name: str) -> None:
    scenario = alone(name)
    for number in writes(scenario):
        crash_at(scenario, number)
