"""Runs by the number, from the command line.

    python -m pilothouse.sim --seeds 1000                          # of every scenario in turn
    python -m pilothouse.sim --scenario sets --seed 17             # one, told in full

Each seed is run twice. A failure is shrunk and printed with the command that repeats it; then it ends with 1.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from itertools import cycle

from pilothouse.sim.fleet import Scenario
from pilothouse.sim.scenarios import SCENARIOS
from pilothouse.sim.simulation import Failed, Unrepeatable, shrunk, simulate, simulate_twice

_TELL_EVERY = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pilothouse.sim", description="A fleet in a bottle.")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="one of them; otherwise all in turn")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone, told in full")
    parser.add_argument("--as-it-is", action="store_true", help="do not shrink a failure")
    given = parser.parse_args()
    # What goes wrong is wanted here; the warnings of those whom it befalls would drown the rest.
    logging.disable(logging.CRITICAL)
    chosen = [SCENARIOS[given.scenario]] if given.scenario else list(SCENARIOS.values())
    if given.seed is not None:
        return max(_one(scenario, given.seed, shrinks=not given.as_it_is) for scenario in chosen)
    return _many(chosen, range(given.first, given.first + given.seeds), shrinks=not given.as_it_is)


def _one(scenario: Scenario, seed: int, *, shrinks: bool) -> int:
    try:
        report = simulate(scenario, seed=seed)
    except Failed as failure:
        print("\n  ".join(["what happened:", *failure.told]))
        print(shrunk(failure) if shrinks else failure)
        return 1
    print("\n".join(report.written))
    print(f"{scenario.name}, seed {seed}: held; {report.writes} writes, {len(report.mishaps)} mishaps")
    return 0


def _many(scenarios: list[Scenario], seeds: range, *, shrinks: bool) -> int:
    began = told = time.monotonic()
    simulated = mishaps = 0.0
    failed = 0
    for done, (scenario, seed) in enumerate(zip(cycle(scenarios), seeds, strict=False), 1):
        try:
            report = simulate_twice(scenario, seed=seed)
            simulated += 2 * report.seconds
            mishaps += len(report.mishaps)
        except (Failed, Unrepeatable) as failure:
            failed += 1
            print(shrunk(failure) if shrinks and isinstance(failure, Failed) else failure, flush=True)
        now = time.monotonic()
        if now - told >= _TELL_EVERY or done == len(seeds):
            told = now
            rate = simulated / (now - began)
            print(
                f"{done} seeds, {failed} failed; {mishaps:.0f} mishaps; {simulated / 3600:.1f} simulated hours, "
                f"{rate:,.0f} simulated seconds a second",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
