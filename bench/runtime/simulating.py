"""How much faster than life the simulator is: three controllers, two managers, ten pilots, an hour."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from random import Random

from pilothouse.client.api import Api
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.fault_schedule import FREQUENT_FAULTS, NO_FAULTS
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.sets import set_users
from pilothouse.sim.simulation import simulate

HOUR = 3600.0


async def _nothing(api: Api) -> None:
    """An hour in which users do nothing any more."""


def users(rng: Random) -> Sequence[UserAction]:
    return [*set_users(rng), UserAction(HOUR, "nothing for an hour", _nothing)]


async def settled(api: Api) -> str:
    return ""


def measured(runs: int = 3) -> dict[str, float]:
    """Simulated seconds a second of CPU, the best of some runs, by what they are."""
    logging.disable(logging.CRITICAL)
    scenario = Scenario("bench", (stateful_sets, garbage, service_accounts), users, settled, pilots=10)
    found: dict[str, float] = {}
    try:
        for name, profile in (("without faults", NO_FAULTS), ("with frequent faults", FREQUENT_FAULTS)):
            rates = []
            for seed in range(runs):
                began = time.process_time()
                report = simulate(scenario, seed=seed, profile=profile)
                rates.append(report.seconds / (time.process_time() - began))
            found[f"simulated s/s, 3 controllers and 10 pilots {name}"] = max(rates)
    finally:
        logging.disable(logging.NOTSET)
    return found
