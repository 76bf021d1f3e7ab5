"""How an update plan would go: the live state is forked, and the plan runs there, once a seed.

    found = forecast(state, seeds=20, timing=ForecastTiming(), until=time.monotonic() + 60)
    found.runs[0].seconds                       # modelled, from its start to its end
    found.fewest_controllers                    # ready at once, in any run

Plans, drains, budgets and the scheduler are the real controllers on a real request handler; the machines, the
pods and their owners are models (``update_machines``, ``forked_pods``). What is as it is at the moment of the
fork stays so, unless the plan changes it: controllers that are not ready, gates that are shut, Nodes that are
not Ready.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import Final

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.k0s.rollout import Gate
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN, GateAnswer, RemovedApisAnswer
from pilothouse.api.kind_names import ControlNode, Plan, PodDisruptionBudget
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.drains.drain_controller import drains
from pilothouse.controllers.plans import run_lifecycle
from pilothouse.controllers.plans.plan_controller import plans
from pilothouse.controllers.plans.start_checks import Exclusions
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.runtime.election import NoElection
from pilothouse.runtime.manager import Manager
from pilothouse.sim.forked_pods import ForkedPods, PodTiming
from pilothouse.sim.forked_state import ForkedState
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.update_machines import UpdateMachines, UpdateTiming

HORIZON: Final = 14 * 24 * 3600.0
"""Modelled seconds after which a run that has not ended is given up."""
_LOOK: Final = 10.0
"""Modelled seconds between two looks at the real clock."""


class ForecastTiming(msgspec.Struct, frozen=True):
    """What is assumed, as ranges in seconds."""

    machines: UpdateTiming = UpdateTiming(
        download=(10.0, 60.0), restart=(5.0, 30.0), answer=(0.0, 1.0), failing=0.0
    )
    pods: PodTiming = PodTiming()


class ForecastRun(msgspec.Struct, frozen=True, rename="camel"):
    """One run, by its seed."""

    seed: int
    seconds: float
    state: str
    description: str
    """Why it ended so; or what it waits for, if it has not ended."""
    fewest_controllers: int
    """The smallest number of controllers that were ready at once."""
    budgets: dict[str, int]
    """The smallest number of healthy pods of each disruption budget."""


class BudgetForecast(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    """With its namespace."""
    needed: int
    now: int
    fewest: int
    """Healthy pods: how many there have to be, are, and would be at the worst."""


class PlanForecast(msgspec.Struct, frozen=True, rename="camel"):
    runs: tuple[ForecastRun, ...]
    seeds: int
    """How many runs were wanted; there are fewer if the time limit was reached."""
    controllers: int
    fewest_controllers: int
    budgets: tuple[BudgetForecast, ...]
    median_seconds: float
    worst_seconds: float


class TimeLimitReached(Exception):
    """The real clock has passed the limit."""


def forecast(
    state: ForkedState,
    *,
    seeds: int,
    timing: ForecastTiming,
    until: float,
    exclude: Exclusions = frozenset(),
    progress: Callable[[int], None] = lambda done: None,
) -> PlanForecast:
    """Run the plan in a fork, by each seed, until the real (monotonic) clock passes ``until``."""
    runs: list[ForecastRun] = []
    for seed in range(seeds):
        progress(seed)
        with suppress(TimeLimitReached), SeededLoop(seed) as loop:
            fork = _Fork(state, loop, seed, timing, exclude)
            runs.append(loop.run_until_complete(fork.run(until)))
        if time.monotonic() > until:
            break
    return _summary(state, runs, seeds)


def _summary(state: ForkedState, runs: list[ForecastRun], seeds: int) -> PlanForecast:
    seconds = [run.seconds for run in runs] or [0.0]
    budgets = [one for one in state.objects if one.noun == PodDisruptionBudget]
    controllers = sum(one.noun == ControlNode for one in state.objects)
    return PlanForecast(
        runs=tuple(runs),
        seeds=seeds,
        controllers=controllers,
        fewest_controllers=min((run.fewest_controllers for run in runs), default=controllers),
        budgets=tuple(
            BudgetForecast(
                name=f"{one.namespace}/{one.name}",
                needed=one.status.get("desiredHealthy", 0),
                now=(now := one.status.get("currentHealthy", 0)),
                fewest=min(
                    (run.budgets.get(f"{one.namespace}/{one.name}", now) for run in runs), default=now
                ),
            )
            for one in sorted(budgets, key=lambda one: one.key)
        ),
        median_seconds=median(seconds),
        worst_seconds=max(seconds),
    )


class _ForkedMachines(UpdateMachines):
    """Machines whose observers answer as they would at the moment of the fork."""

    def __init__(
        self, state: ForkedState, server: SimulatedServer, clock: LoopClock, seed: int, timing: UpdateTiming
    ) -> None:
        rng = random.Random(f"machines {seed}")
        super().__init__(server.api("machines"), state.machines(), clock, rng, timing=timing, registers=False)
        self._answers = state.answers

    async def removed_apis(self, version: str) -> RemovedApisAnswer:
        found = next((one for one in self._answers.removed_apis if one.version == version), None)
        return found or RemovedApisAnswer(version=version)

    async def gate(self, gate: Gate) -> GateAnswer:
        found = next((one for one in self._answers.gates if one.name == gate.name), None)
        return found or GateAnswer(name=gate.name, open=False, message="it was not looked up")


class _Fork:
    """One run in one fork."""

    def __init__(
        self, state: ForkedState, loop: SeededLoop, seed: int, timing: ForecastTiming, exclude: Exclusions
    ) -> None:
        self._state = state
        self._loop = loop
        self._seed = seed
        clock = LoopClock(loop, start=state.now)
        rng = random.Random(f"fork {seed}")
        self._server = SimulatedServer(clock, seed=seed)
        api = self._server.api("manager")
        informers = SharedInformers(api, rng, clock)
        self._machines = _ForkedMachines(state, self._server, clock, seed, timing.machines)
        self._pods = ForkedPods(self._server, clock, random.Random(f"pods {seed}"), timing.pods)
        self._manager = Manager(
            api,
            (plans(exclude), drains, disruption_budgets, scheduling),
            informers,
            NoElection(),
            clock,
            identity="forecast",
            observers=self._machines.observers(api, informers, clock),
        )
        self._plans, self._budgets = (
            Informer(self._server.api("judge"), noun, rng, clock) for noun in (Plan, PodDisruptionBudget)
        )
        self._fewest: dict[str, int] = {}
        self._ended = asyncio.Event()

    async def run(self, until: float) -> ForecastRun:
        """Raises ``TimeLimitReached``."""
        await self._state.load(self._server.store)
        await self._server.start()
        self._plans.subscribe(self._saw_plan)
        self._budgets.subscribe(self._saw_budget)
        parts = together(
            {
                "plans": self._plans.run(),
                "budgets": self._budgets.run(),
                "machines": self._machines.run(),
                "pods": self._pods.run(),
                "manager": self._manager.run(),
                "limit": _limit(until),
            }
        )
        running = asyncio.ensure_future(parts)
        ended = asyncio.ensure_future(asyncio.wait_for(self._ended.wait(), HORIZON))
        try:
            await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
            return self._found()
        finally:
            for task in (running, ended):
                task.cancel()
            await asyncio.gather(running, ended, return_exceptions=True)
            await self._server.stop()

    def _saw_plan(self, change: CacheChange) -> None:
        if change.new is not None and run_lifecycle.has_ended(run_lifecycle.read_status(change.new)):
            self._ended.set()

    def _saw_budget(self, change: CacheChange) -> None:
        if (budget := change.new) is not None:
            name, healthy = f"{budget.namespace}/{budget.name}", budget.status.get("currentHealthy", 0)
            self._fewest[name] = min(healthy, self._fewest.get(name, healthy))

    def _found(self) -> ForecastRun:
        plan = self._plans.cache.get("", RUNNING_PLAN)
        assert plan is not None, "it was forked"
        status = run_lifecycle.read_status(plan)
        progressing = plan.condition("Progressing") or {}
        ended = run_lifecycle.has_ended(status)
        return ForecastRun(
            seed=self._seed,
            seconds=self._loop.time(),
            state=status.state,
            description=status.history[0].description if ended else str(progressing.get("message", "")),
            fewest_controllers=self._machines.fewest_ready,
            budgets=self._fewest,
        )


async def _limit(until: float) -> None:
    while True:
        await asyncio.sleep(_LOOK)
        if time.monotonic() > until:
            raise TimeLimitReached
