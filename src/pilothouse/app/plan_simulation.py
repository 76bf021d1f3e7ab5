"""The composition of ``pilothouse plan preview --simulate``: how often, with which assumptions, and as text.

found = simulate_plan(state, assumptions, seeds=20, seconds=60, exclude=frozenset(), progress=print)
for line in forecast_lines(found, assumptions): print(line)
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from pilothouse.base.duration import human_age
from pilothouse.sim.forked_pods import PodTiming
from pilothouse.sim.forked_state import ForkedState
from pilothouse.sim.plan_forecast import HORIZON, ForecastTiming, PlanForecast, forecast
from pilothouse.sim.update_machines import Seconds, UpdateTiming


class Assumptions(msgspec.Struct, frozen=True, rename="camel"):
    """How long things are assumed to take: the state of a cluster does not show it."""

    download: Seconds
    restart: Seconds
    pod_start: Seconds
    pod_stop: Seconds
    failing: float
    """The probability that a machine fails."""

    @property
    def timing(self) -> ForecastTiming:
        machines = UpdateTiming(
            download=self.download, restart=self.restart, answer=(0.0, 1.0), failing=self.failing
        )
        return ForecastTiming(machines, PodTiming(start=self.pod_start, stop=self.pod_stop))


def simulate_plan(
    state: ForkedState,
    assumptions: Assumptions,
    *,
    seeds: int,
    seconds: float,
    exclude: frozenset[str],
    progress: Callable[[int], None],
) -> PlanForecast:
    """Run the plan on a fork of the state, as often as there are seeds, for so many seconds at most."""
    before = logging.root.manager.disable
    # What the simulated parts log is about nothing real.
    logging.disable(logging.CRITICAL)
    try:
        return forecast(
            state,
            seeds=seeds,
            timing=assumptions.timing,
            until=time.monotonic() + seconds,
            exclude=exclude,
            progress=progress,
        )
    finally:
        logging.disable(before)


def forecast_lines(found: PlanForecast, assumptions: Assumptions) -> Iterator[str]:
    """What the runs had in common, and where they differ."""
    done = len(found.runs)
    fewer = f", of {found.seeds}, because time was up" if done < found.seeds else ""
    yield f"Simulated {done} {'run' if done == 1 else 'runs'}{fewer}:"
    yield f"  assumed: {_assumed(assumptions)}"
    if not done:
        yield "  no run ended in time: allow more with --time-limit"
        return
    yield f"  duration: {_span(found.median_seconds)} (median), {_span(found.worst_seconds)} (worst)"
    for (state, description), number in Counter(
        (run.state, run.description) for run in found.runs
    ).most_common():
        ended = (
            f"ends as {state}" if state not in _UNFINISHED else f"has not ended after {human_age(HORIZON)}"
        )
        yield f"  {ended} in {number} of {done} {'run' if done == 1 else 'runs'}: {description}"
    if found.controllers:
        yield f"  controllers ready: {found.fewest_controllers} of {found.controllers} at the worst"
    for budget in found.budgets:
        yield (
            f"  budget {budget.name}: {budget.fewest} healthy pods at the worst, "
            f"{budget.needed} needed, {budget.now} now"
        )


_UNFINISHED = ("", "Schedulable", "SchedulableWait")


def _assumed(assumptions: Assumptions) -> str:
    parts = {
        "download": assumptions.download,
        "restart": assumptions.restart,
        "pod start": assumptions.pod_start,
        "pod stop": assumptions.pod_stop,
    }
    texts = [f"{name} {_span(low)} to {_span(high)}" for name, (low, high) in parts.items()]
    return ", ".join([*texts, f"{assumptions.failing:.0%} of machines fail"])


def _span(seconds: float) -> str:
    return human_age(round(seconds))
