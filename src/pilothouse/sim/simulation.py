"""Runs of a scenario by seed: once, twice to prove that they are the same, and shrunk to the fewest causes.

report = simulate(scenario, seed=7)          # raises Failed
report = simulate_twice(scenario, seed=7)    # raises Unrepeatable too
shrunk(failure)                              # the same failure, by the fewest causes
"""

from __future__ import annotations

import gc
import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from pilothouse.sim.fault_schedule import (
    FREQUENT_FAULTS,
    NO_FAULTS,
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
    """A run in which every invariant held."""

    seed: int
    digest: str
    """The digest of all writes, with client and time: the same for the same seed."""
    writes: int
    seconds: float
    """Simulated."""
    faults: Sequence[PlannedFault]
    written: Sequence[str]
    """Every write: time, client, request and status."""


class Failed(AssertionError):
    """A run in which an invariant was violated, or that did not converge."""

    def __init__(
        self, scenario: Scenario, seed: int, problem: str, causes: Sequence[Cause], timeline: Sequence[str]
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.problem = problem
        self.causes = causes
        """The user actions and faults of the run, of which a shrunk run has fewer."""
        self.timeline = timeline
        super().__init__(self._message())

    def _message(self) -> str:
        lines = [
            f"{self.scenario.name}, seed {self.seed}: {self.problem}",
            f"repeat it: python -m pilothouse.sim --scenario {self.scenario.name} --seed {self.seed}",
            "causes:",
        ]
        return "\n  ".join(lines + [f"- {cause}" for cause in self.causes])


class Unrepeatable(AssertionError):
    """Two runs of one seed differ: something used another clock or another source of randomness."""


def simulate(scenario: Scenario, *, seed: int, profile: FaultProfile = FREQUENT_FAULTS) -> Report:
    """One run by its seed. Raises ``Failed``."""
    faults = SeededFaults(
        seed,
        profile,
        managers=manager_names(scenario),
        nodes=node_names(scenario),
        clock_jump=scenario.clock_jump,
    )
    return run(scenario, actions(scenario, seed), faults, seed=seed, profile=profile)


def simulate_twice(scenario: Scenario, *, seed: int, profile: FaultProfile = FREQUENT_FAULTS) -> Report:
    """Two runs of one seed, which must be the same. Raises ``Failed`` and ``Unrepeatable``."""
    first = simulate(scenario, seed=seed, profile=profile)
    second = simulate(scenario, seed=seed, profile=profile)
    if first.digest != second.digest:
        pairs = zip(first.written, second.written, strict=False)
        differing = next((f"{a!r} and {b!r}" for a, b in pairs if a != b), "one is longer")
        raise Unrepeatable(f"{scenario.name}, seed {seed}: two runs differ: {differing}")
    return first


def simulate_with(scenario: Scenario, *faults: PlannedFault, seed: int = 0) -> Report:
    """One run with only these faults. Raises ``Failed``."""
    return run(
        scenario, actions(scenario, seed), FixedFaults(faults, whenever=True), seed=seed, profile=NO_FAULTS
    )


def actions(scenario: Scenario, seed: int) -> Sequence[UserAction]:
    return scenario.users(random.Random(f"users {seed}"))


def shrunk(failure: Failed, *, profile: FaultProfile = FREQUENT_FAULTS, attempts: int = 200) -> Failed:
    """The failure with as few causes as can be found. Any failure of the same seed counts."""
    last = failure

    def fails(causes: Sequence[Cause]) -> bool:
        nonlocal last
        try:
            run(
                failure.scenario,
                [cause for cause in causes if isinstance(cause, UserAction)],
                FixedFaults(cause for cause in causes if isinstance(cause, PlannedFault)),
                seed=failure.seed,
                profile=profile,
            )
        except Failed as again:
            last = Failed(failure.scenario, failure.seed, again.problem, causes, again.timeline)
            return True
        return False

    if fails(failure.causes):
        shrink(failure.causes, fails, attempts=attempts)
    return last


def run(
    scenario: Scenario,
    doing: Sequence[UserAction],
    faults: FaultSource,
    *,
    seed: int,
    profile: FaultProfile,
) -> Report:
    """One run of these actions with these faults. Raises ``Failed``."""
    with _no_collecting():
        # A function of its own, so that nothing refers to the run when its garbage is collected.
        return _run(scenario, doing, faults, seed, profile)


def _run(
    scenario: Scenario,
    doing: Sequence[UserAction],
    faults: FaultSource,
    seed: int,
    profile: FaultProfile,
) -> Report:
    with SeededLoop(seed) as loop:
        fleet = SimulatedFleet(scenario, doing, faults, loop, seed=seed, profile=profile)
        try:
            loop.run_until_complete(fleet.run())
        except (InvariantViolated, NotConverged) as failure:
            causes: list[Cause] = [*doing, *faults.happened]
            raise Failed(scenario, seed, str(failure), causes, fleet.timeline) from None
        digest = hashlib.sha256("\n".join(fleet.server.trace).encode()).hexdigest()
        trace = tuple(fleet.server.trace)
        return Report(seed, digest, fleet.checker.writes, fleet.now, tuple(faults.happened), trace)


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Disable garbage collection: its timing depends on earlier runs, and finalizers would vary with it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # The garbage of the run is in the youngest generation.
        gc.collect(0)
        if enabled:
            gc.enable()
