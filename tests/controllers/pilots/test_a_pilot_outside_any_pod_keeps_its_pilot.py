"""A pilot that runs outside any pod keeps its Pilot for as long as it renews its Lease, past any collection period."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pilothouse.api.kind_names import Lease, Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.controllers.pilots.pilot_collection import pilot_collector
from pilothouse.meta.errors import StatusError
from pilothouse.pilot.heartbeat import EVERY, PilotHeartbeat
from pilothouse.runtime.intents import Delete, RequeueAfter
from pilothouse.runtime.invariants import ObjectStates, invariant
from pilothouse.runtime.snapshot import Snapshot, StaticView
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.simulation import simulate_twice

PAGE = Path(__file__).parents[3] / "docs" / "pilots.md"
PERIOD = 300.0
ABANDONED = "abandoned-0"


def documented_pilot() -> Tree:
    """The first example of the page."""
    found = re.search(r"<<'Y'\n(.*?)\nY\n", PAGE.read_text(), re.DOTALL)
    assert found is not None
    tree: Tree = yaml.safe_load(found[1])
    return {**tree, "metadata": {**tree["metadata"], "namespace": "default"}}


def users(rng: random.Random) -> list[UserAction]:
    one = documented_pilot()
    dead = {**one, "metadata": {**one["metadata"], "name": ABANDONED}}
    return [
        UserAction(0, "create the Pilot of a pilot that runs", lambda api: api.create(Pilot, one)),
        UserAction(0, "create the Pilot of one that never comes", lambda api: api.create(Pilot, dead)),
        UserAction(rng.uniform(4, 5) * PERIOD, "look", lambda api: api.list(Pilot, "default")),
    ]


async def renews(server: SimulatedServer, clock: Clock, rng: random.Random) -> None:
    """What a pilot process does while its database runs."""
    api = server.api("cache-0")
    name = documented_pilot()["metadata"]["name"]
    while True:
        await asyncio.sleep(EVERY)
        try:
            await PilotHeartbeat(api, clock).beat(await api.get(Pilot, name, "default"))
        except (StatusError, TransportError):
            continue


@invariant(Pilot)
def a_pilot_that_is_alive_keeps_its_pilot(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    if before is not None and after is None and before.name != ABANDONED:
        return f"{before.name} was deleted"
    return None


async def settled(api: Api) -> str:
    names = {one.name for one in (await api.list(Pilot, "default")).objects}
    return f"there are the Pilots {sorted(names)}" if names != {"cache-0"} else ""


@pytest.mark.parametrize("seed", range(4))
def test_the_documented_pilot_is_there_after_many_periods_and_an_abandoned_one_is_not(seed: int) -> None:
    simulate_twice(
        Scenario(
            "pilots-without-pods",
            [pilot_collector(PERIOD)],
            users,
            settled,
            [a_pilot_that_is_alive_keeps_its_pilot],
            nodes=0,
            companion=renews,
        ),
        seed=seed,
    )


def decisions(*, missing_at: float, renewed_at: float | None, now: float) -> list[Any]:
    missing = {"type": "PodPresent", "status": "False", "lastTransitionTime": format_time(missing_at)}
    one = Object(Pilot, {**documented_pilot(), "status": {"conditions": [missing]}}, arrived=0.0)
    lease: Tree = {
        "apiVersion": Lease.api_version,
        "kind": "Lease",
        "metadata": {"name": "pilot-cache-0", "namespace": "default"},
        "spec": {"renewTime": "2001-01-01T00:00:00.000000Z"},
    }
    leases = [] if renewed_at is None else [Object(Lease, lease, arrived=renewed_at)]
    collect = pilot_collector(PERIOD)
    world = Snapshot({noun: StaticView([]) for noun in collect.nouns} | {Lease: StaticView(leases)}, now=now)
    return list(collect(one, world))


def test_the_period_counts_from_the_last_renewal_whatever_the_pilots_clock_says() -> None:
    (waits,) = decisions(missing_at=0, renewed_at=950, now=1000)
    assert isinstance(waits, RequeueAfter)
    assert waits.seconds == PERIOD - 50
    (deletes,) = decisions(missing_at=0, renewed_at=700, now=1000)
    assert isinstance(deletes, Delete)


def test_the_period_counts_from_the_missing_pod_if_that_is_later() -> None:
    (waits,) = decisions(missing_at=900, renewed_at=100, now=1000)
    assert isinstance(waits, RequeueAfter)
    assert waits.seconds == PERIOD - 100
    (deletes,) = decisions(missing_at=700, renewed_at=None, now=1000)
    assert isinstance(deletes, Delete)
