"""Runs scenarios by seed, from the command line.

    python -m pilothouse.sim --seeds 1000                          # all scenarios in turn
    python -m pilothouse.sim --scenario sets --seed 17             # one run, in detail

Each seed is run twice. A failure is shrunk and printed with the command that repeats it; the exit code is 1.
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

_PRINT_EVERY = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pilothouse.sim", description="Simulate a fleet.")
    parser.add_argument(
        "--scenario", choices=sorted(SCENARIOS), help="run only this scenario (default: all in turn)"
    )
    parser.add_argument("--seeds", type=int, default=100, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run only this seed, in detail")
    parser.add_argument("--as-it-is", action="store_true", help="do not shrink a failure")
    given = parser.parse_args()
    # Faults are injected on purpose; the warnings about them would hide the results.
    logging.disable(logging.CRITICAL)
    chosen = [SCENARIOS[given.scenario]] if given.scenario else list(SCENARIOS.values())
    if given.seed is not None:
        return max(_one(scenario, given.seed, shrinks=not given.as_it_is) for scenario in chosen)
    return _many(chosen, range(given.first, given.first + given.seeds), shrinks=not given.as_it_is)


def _one(scenario: Scenario, seed: int, *, shrinks: bool) -> int:
    try:
        report = simulate(scenario, seed=seed)
    except Failed as failure:
        print("\n  ".join(["what happened:", *failure.timeline]))
        print(shrunk(failure) if shrinks else failure)
        return 1
    print("\n".join(report.written))
    print(f"{scenario.name}, seed {seed}: held; {report.writes} writes, {len(report.faults)} faults")
    return 0


def _many(scenarios: list[Scenario], seeds: range, *, shrinks: bool) -> int:
    began = printed = time.monotonic()
    simulated = faults = 0.0
    failed = 0
    for done, (scenario, seed) in enumerate(zip(cycle(scenarios), seeds, strict=False), 1):
        try:
            report = simulate_twice(scenario, seed=seed)
            simulated += 2 * report.seconds
            faults += len(report.faults)
        except (Failed, Unrepeatable) as failure:
            failed += 1
            print(shrunk(failure) if shrinks and isinstance(failure, Failed) else failure, flush=True)
        now = time.monotonic()
        if now - printed >= _PRINT_EVERY or done == len(seeds):
            printed = now
            rate = simulated / (now - began)
            print(
                f"{done} seeds, {failed} failed; {faults:.0f} faults; "
                f"{simulated / 3600:.1f} simulated hours, {rate:,.0f} simulated seconds a second",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
