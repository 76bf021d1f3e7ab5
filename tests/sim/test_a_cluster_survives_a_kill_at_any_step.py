"""A scale-down and an upgrade of a modelled Elasticsearch, and at each step somebody who takes part is killed.

A step is a second in which the manager writes. The manager itself is struck before and after each of its writes in
``test_a_cluster_survives_a_crash_at_any_write.py``; here it is the database or the pilot of the node that the step is about (they end together), the
leading pilot, and the API server.
"""

from __future__ import annotations

import os
from random import Random
from typing import Literal

import msgspec
import pytest

from pilothouse.base.clock import Clock
from pilothouse.sim.fault_schedule import Fault, FaultPoint, PlannedFault
from pilothouse.sim.scenarios.elasticsearch_cluster import ELASTIC, NAME, pools_of, story
from pilothouse.sim.scenarios.user_actions import SPACE
from pilothouse.sim.simulated_pilots import PlannedKill, SimulatedPilots
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.simulation import Report, simulate_with

SEED = 1
BEGINS = 62
"""The second at which the change is asked for."""
EVERY = 1 if os.environ.get("PILOTHOUSE_SOAK") else 6
"""Which steps are struck: all of them in a soak."""
LASTS = 400.0
"""Seconds for which users stay, and trouble with them."""

Victim = Literal["a node", "the leading pilot", "the API server"]
VICTIMS: tuple[Victim, ...] = ("a node", "the leading pilot", "the API server")
STORIES = {
    "data nodes go": (story(pools_of(4), (60, pools_of(2)), (LASTS, pools_of(2))), f"es-{NAME}-data-3"),
    "a version": (
        story(pools_of(2), (60, {"version": "8.17.0"}), (LASTS, {"version": "8.17.0"})),
        f"es-{NAME}-data-1",
    ),
}
"""What is asked for, and the node that is concerned first."""


def run(name: str, *faults: PlannedFault, kills: tuple[PlannedKill, ...] = ()) -> tuple[Report, list[str]]:
    """A run, and who was killed in it."""
    pilot_groups: list[SimulatedPilots] = []

    async def pilots(server: SimulatedServer, clock: Clock, rng: Random) -> None:
        pilot_groups.append(SimulatedPilots(server.api("pilots"), SPACE, NAME, clock, rng, kills=kills))
        await pilot_groups[0].run()

    users, _ = STORIES[name]
    scenario = msgspec.structs.replace(ELASTIC, users=users, managers=1, companion=pilots)
    return simulate_with(scenario, *faults, seed=SEED), pilot_groups[0].killed


def steps(name: str) -> list[int]:
    """The seconds in which the manager does something about the change, when nothing goes wrong."""
    report, _ = run(name)
    written = [line.split() for line in report.written]
    origin = float(written[0][0])
    mine = [words for words in written if words[1].startswith("m0-") and "/leases" not in words[3]]
    seconds = {int(float(words[0]) - origin) for words in mine}
    return sorted(second for second in seconds if second >= BEGINS)


def kill_at(name: str, process: Victim, second: int) -> bool:
    """Whether there was somebody to kill; it has to end as asked in any case."""
    if process == "the API server":
        planned = PlannedFault("server", FaultPoint.SECOND, second, Fault.RESTART, 5.0)
        report, _ = run(name, planned)
        return planned in report.faults
    _, concerned = STORIES[name]
    _, killed = run(name, kills=(PlannedKill(second, concerned if process == "a node" else ""),))
    return len(killed) == 1


@pytest.mark.parametrize("process", VICTIMS)
@pytest.mark.parametrize("name", STORIES)
def test_it_ends_as_asked_when_somebody_is_killed_half_way(name: str, process: Victim) -> None:
    found = steps(name)
    assert len(found) > 8
    assert kill_at(name, process, found[len(found) // 3])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("process", VICTIMS)
@pytest.mark.parametrize("name", STORIES)
def test_it_ends_as_asked_whenever_somebody_is_killed(name: str, process: Victim) -> None:
    struck_down = [kill_at(name, process, second) for second in steps(name)[::EVERY]]
    # A node that has gone can't be killed any more; all others were there.
    assert struck_down.count(True) > len(struck_down) // 3
