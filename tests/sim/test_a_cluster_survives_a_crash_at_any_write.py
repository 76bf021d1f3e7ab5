"""Each story of an Elasticsearch cluster, with the manager struck down before and after each of its writes.

Whatever is struck, no last copy is dropped, no majority is lost, no two nodes are down at once, no folder is read by an older version, and
in the end everything is as asked.
"""

from __future__ import annotations

import os

import msgspec
import pytest

from pilothouse.sim.fault_schedule import Fault, FaultPoint, PlannedFault
from pilothouse.sim.scenarios.elasticsearch_cluster import ELASTIC, pools_of, story
from pilothouse.sim.simulation import Report, simulate_with

SEED = 1
EVERY = 1 if os.environ.get("PILOTHOUSE_SOAK") else 80
"""Which writes are struck: all of them takes forty minutes."""
_FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)


STORIES = {
    "it is made": story(pools_of()),
    "data nodes go": story(pools_of(4), (60, pools_of(2))),
    "data nodes go and are wanted again": story(pools_of(), (60, pools_of(2)), (4, pools_of())),
    "masters go": story(pools_of(2), (60, pools_of(2, 1))),
    "a version": story(pools_of(2), (60, {"version": "8.17.0"})),
    "a version and back": story(pools_of(2), (60, {"version": "7.17.29"}), (12, {"version": "7.17.9"})),
    "a configuration": story(pools_of(2), (60, {"config": {"search.max_buckets": 1}})),
    "a pool goes": story(pools_of(extra=2), (60, pools_of())),
    "a pool comes while another shrinks": story(pools_of(), (60, pools_of(2, extra=1))),
}


def run(name: str, *faults: PlannedFault) -> Report:
    return simulate_with(
        msgspec.structs.replace(ELASTIC, users=STORIES[name], managers=1), *faults, seed=SEED
    )


def writes(name: str) -> list[int]:
    """The numbers of the writes that are no lease's, in a run in which nothing goes wrong."""
    mine = [line.split() for line in run(name).written if line.split()[1].startswith("m0-")]
    return [number for number, (_, _, _, path, _) in enumerate(mine) if "/leases" not in path]


def crash_at(name: str, number: int) -> None:
    for fault in _FAULTS:
        report = run(name, PlannedFault("m0", FaultPoint.WRITE, number, fault))
        assert fault in [each.fault for each in report.faults]


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_as_asked_with_a_crash_half_way(name: str) -> None:
    found = writes(name)
    assert len(found) > 20
    crash_at(name, found[len(found) * 3 // 4])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_as_asked_with_a_crash_at_any_write(name: str) -> None:
    for number in writes(name)[::EVERY]:
        crash_at(name, number)
