"""Runs by their seed: once, twice to be sure that they are the same, and again with less until nothing can be left out.

    report = simulate(scenario, seed=7)          # raises Failed, with what befell it
    report = simulate_twice(scenario, seed=7)    # raises Unrepeatable too
    shrunk(failure)                              # the same failure, by the fewest causes

A failure says which command repeats it.
"""

from __future__ import annotations

import gc
import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from pilothouse.sim.fault_schedule import (
    CALM,
    STORMY,
    FaultProfile,
    FaultSource,
    FixedFaults,
    PlannedFault,
    SeededFaults,
)
from pilothouse.sim.fleet import NotConverged, Scenario, SimulatedFleet, UserAction, manager_names, node_names
from pilothouse.sim.invariant_checker import InvariantViolated
from pilothouse.sim.loop import SeededLoop
from pilothouse.sim.shrink import shrink

Cause = PlannedFault | UserAction


class Report(msgspec.Struct, frozen=True):
    """A run that held."""

    seed: int
    digest: str
    """Of every write, who made it and when: the same for the same seed."""
    writes: int
    seconds: float
    """Simulated."""
    mishaps: Sequence[PlannedFault]
    written: Sequence[str]
    """Every write: when, by whom, what, and what came of it."""


class Failed(AssertionError):
    """A run that did not hold."""

    def __init__(
        self, scenario: Scenario, seed: int, problem: str, causes: Sequence[Cause], told: Sequence[str]
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.problem = problem
        self.causes = causes
        """What users did and what went wrong: those that a run with fewer of them is made of."""
        self.told = told
        super().__init__(self._message())

    def _message(self) -> str:
        lines = [
            f"{self.scenario.name}, seed {self.seed}: {self.problem}",
            f"repeat it: python -m pilothouse.sim --scenario {self.scenario.name} --seed {self.seed}",
            "what it takes:",
        ]
        return "\n  ".join(lines + [f"- {cause}" for cause in self.causes])


class Unrepeatable(AssertionError):
    """Two runs of one seed differ: something took time or chance from elsewhere."""


def simulate(scenario: Scenario, *, seed: int, weather: FaultProfile = STORMY) -> Report:
    """One run by its seed. Raises ``Failed``."""
    fortune = SeededFaults(seed, weather, managers=manager_names(scenario), nodes=node_names(scenario))
    return run(scenario, actions(scenario, seed), fortune, seed=seed, weather=weather)


def simulate_twice(scenario: Scenario, *, seed: int, weather: FaultProfile = STORMY) -> Report:
    """Two runs by one seed, which have to be the same. Raises ``Failed`` and ``Unrepeatable``."""
    first = simulate(scenario, seed=seed, weather=weather)
    second = simulate(scenario, seed=seed, weather=weather)
    if first.digest != second.digest:
        pairs = zip(first.written, second.written, strict=False)
        differing = next((f"{a!r} and {b!r}" for a, b in pairs if a != b), "one is longer")
        raise Unrepeatable(f"{scenario.name}, seed {seed}: two runs differ: {differing}")
    return first


def struck(scenario: Scenario, *mishaps: PlannedFault, seed: int = 0) -> Report:
    """One run in which nothing goes wrong but this. Raises ``Failed``."""
    return run(
        scenario, actions(scenario, seed), FixedFaults(mishaps, whenever=True), seed=seed, weather=CALM
    )


def actions(scenario: Scenario, seed: int) -> Sequence[UserAction]:
    """What the users of a seed do."""
    return scenario.users(random.Random(f"users {seed}"))


def shrunk(failure: Failed, *, weather: FaultProfile = STORMY, attempts: int = 200) -> Failed:
    """The failure again, by as few causes as can be found. Any failure of the same seed will do."""
    last = failure

    def fails(causes: Sequence[Cause]) -> bool:
        nonlocal last
        try:
            run(
                failure.scenario,
                [cause for cause in causes if isinstance(cause, UserAction)],
                FixedFaults(cause for cause in causes if isinstance(cause, PlannedFault)),
                seed=failure.seed,
                weather=weather,
            )
        except Failed as again:
            last = Failed(failure.scenario, failure.seed, again.problem, causes, again.told)
            return True
        return False

    if fails(failure.causes):
        shrink(failure.causes, fails, attempts=attempts)
    return last


def run(
    scenario: Scenario, doing: Sequence[UserAction], fortune: FaultSource, *, seed: int, weather: FaultProfile
) -> Report:
    """One run of these actions under this fortune. Raises ``Failed``."""
    with _no_collecting():
        # By a function of its own, so that nothing of the run is held any more when what it left is collected.
        return _run(scenario, doing, fortune, seed, weather)


def _run(
    scenario: Scenario, doing: Sequence[UserAction], fortune: FaultSource, seed: int, weather: FaultProfile
) -> Report:
    with SeededLoop(seed) as loop:
        fleet = SimulatedFleet(scenario, doing, fortune, loop, seed=seed, weather=weather)
        try:
            loop.run_until_complete(fleet.run())
        except (InvariantViolated, NotConverged) as failure:
            causes: list[Cause] = [*doing, *fortune.happened]
            raise Failed(scenario, seed, str(failure), causes, fleet.told) from None
        digest = hashlib.sha256("\n".join(fleet.server.trace).encode()).hexdigest()
        return Report(
            seed, digest, fleet.witness.writes, fleet.now, tuple(fortune.happened), tuple(fleet.server.trace)
        )


@contextmanager
def _no_collecting() -> Iterator[None]:
    """When garbage is collected depends on everything that ran before; what is closed then would run then."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Everything that the run has left is young, so that this looks at nothing else.
        gc.collect(0)
        if enabled:
            gc.enable()
