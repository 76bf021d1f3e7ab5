"""Leader, agents, API server and managed programs are killed at twelve points of a plan's life (`kill_points`).

One run takes the kills of one part at all points in turn; those of the API server, after which clients wait before
they call again, are made in two runs. With ``PILOTHOUSE_SOAK=1`` parts are killed in pairs, too: both at every
point. Whatever happens, the plan completes, nobody is signalled twice, and never are two control hosts away at once.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from tests.kit.fleet_watch import FleetWatch
from tests.kit.kill_points import KILL_POINTS, VICTIMS, KillPoint, Victim, kill
from tests.kit.managed_programs import program
from tests.kit.update_fleet import UpdateFleet

from pilothouse.api.k0s.signals import STEPS

NEW = "v2.0.0"
PAIRS = list(combinations(VICTIMS, 2)) if os.environ.get("PILOTHOUSE_SOAK") else []
KILLED: list[tuple[Victim, ...]] = [*((victim,) for victim in VICTIMS), *PAIRS]
RUNS = [
    pytest.param(victims, KILL_POINTS[part::parts], id=f"{' and '.join(victims)} {part + 1} of {parts}")
    for victims in KILLED
    for parts in (2 if "API server" in victims else 1,)
    for part in range(parts)
]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("victims", "points"), RUNS)
def test_a_plan_completes_whatever_is_killed(
    tmp_path: Path, victims: tuple[Victim, ...], points: tuple[KillPoint, ...]
) -> None:
    """k0s-A21 and k0s-A22, with real processes: at twelve points each."""
    with UpdateFleet(tmp_path) as fleet:
        fleet.offer(NEW, program(NEW))
        with FleetWatch(fleet) as watch:
            fleet.apply(fleet.plan(NEW, rollout={"onNotReady": "wait"}))
            for point in points:
                again: list[Callable[[], None]] = []
                watch.at(point.reached, functools.partial(kill_all, fleet, victims, point, again))
                for start in again:
                    start()
            fleet.completed()
            fleet.wait(lambda: {each.version() for each in fleet.machines} == {NEW}, "all programs to run")
            watch.caught_up()
        for machine in fleet.machines:
            [turn] = watch.turns(machine.name)
            assert turn.steps == ("", *STEPS)
        assert watch.away_together() == []


def kill_all(
    fleet: UpdateFleet, victims: tuple[Victim, ...], point: KillPoint, again: list[Callable[[], None]]
) -> None:
    again += [kill(fleet, victim, point) for victim in victims]
