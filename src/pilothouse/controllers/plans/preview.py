"""What a plan would do, found out by the code that does it.

    found = preview(plan, world, answers)
    found.state           # SchedulableWait, or the state as which it would end at once
    found.steps           # who, in which order, how many at once
    found.obstacles       # what would hold it at this moment

Nothing is written: the plan need not be stored.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pilothouse.api.k0s.v1beta2 import RUNNING_VERSION, PlanAnswers, PlanQuestions
from pilothouse.api.kind_names import ControlNode, Node
from pilothouse.api.objects import Object
from pilothouse.controllers.disruptions import DisruptionAccount
from pilothouse.controllers.drains.machine_turns import node_of
from pilothouse.controllers.drains.pod_evictions import leaving_pods
from pilothouse.controllers.plans import gates, run_lifecycle
from pilothouse.controllers.plans.controller_turns import is_busy, not_ready
from pilothouse.controllers.plans.machines_in_progress import is_ready
from pilothouse.controllers.plans.run_limits import reason_to_hold
from pilothouse.controllers.plans.stages import Stage
from pilothouse.controllers.plans.start_checks import Exclusions, check_and_discover, versions_to_check
from pilothouse.controllers.plans.update_run import UpdateRun, some
from pilothouse.controllers.plans.waves import in_waves
from pilothouse.controllers.plans.worker_turns import (
    concurrent,
    most_unavailable,
    unavailable,
)
from pilothouse.runtime.snapshot import Snapshot


class PreviewStep(msgspec.Struct, frozen=True, rename="camel"):
    """Machines of one command that are updated after those of the step before."""

    command: int
    title: str
    """What happens: controllers to v1.31.0, one at a time."""
    machines: tuple[str, ...]


class PlanPreview(msgspec.Struct, frozen=True, rename="camel"):
    state: str
    description: str
    """Why it would end at once; empty if it would not."""
    steps: tuple[PreviewStep, ...] = ()
    obstacles: tuple[str, ...] = ()
    without_agent: tuple[str, ...] = ()
    """The machines from which no update agent has reported. Their turns would fail."""


def versions_to_ask_about(plan: Object) -> tuple[str, ...]:
    """The versions whose removed APIs the answers have to have."""
    return versions_to_check(run_lifecycle.read_spec(plan))


def preview(
    plan: Object, world: Snapshot, answers: PlanAnswers, exclude: Exclusions = frozenset()
) -> PlanPreview:
    """``answers``: what the observer would find out at this moment."""
    run = UpdateRun(plan, world)
    status = run_lifecycle.started(run.wanted, plan.generation, run.status, run.time)
    asked = PlanQuestions(number=answers.number, removed_apis=versions_to_ask_about(plan))
    run.status = msgspec.structs.replace(status, questions=asked, answers=answers)
    check_and_discover(run, exclude)
    if run_lifecycle.has_ended(run.status):
        return PlanPreview(run.status.state, run.status.history[0].description)
    steps = tuple(step for stage in run.stages if stage.targets for step in _steps(run, stage))
    obstacles, without_agent = tuple(_obstacles(run, answers)), tuple(_without_agent(run))
    return PlanPreview(run.status.state, "", steps, obstacles, without_agent)


def _steps(run: UpdateRun, stage: Stage) -> list[PreviewStep]:
    version = stage.update.version
    if stage.part == "controllers":
        names = tuple(target.name for target in stage.targets)
        return [PreviewStep(stage.command, f"controllers to {version}, one at a time", names)]
    what = "bundle" if stage.part == "bundle" else "workers"
    title = f"{what} {version if what == 'bundle' else f'to {version}'}, {concurrent(stage)} at a time"
    return [
        PreviewStep(
            stage.command, f"{title} ({wave})" if wave else title, tuple(target.name for target in members)
        )
        for wave, members in in_waves(stage.targets, run.rollout.waves)
    ]


def _obstacles(run: UpdateRun, answers: PlanAnswers) -> list[str]:
    stages = [stage for stage in run.stages if stage.targets]
    found = []
    if (hold := reason_to_hold(run)) is not None:
        found.append(hold.because)
    if any(stage.part == "controllers" for stage in stages):
        found += _controllers(run, answers)
    if gates.has_gates(run, "before"):
        found += gates.shut(run, "before", answers)
    found += _workers(run, stages)
    found += [text for stage in stages for text in _too_few_available(run, stage)]
    return found + _kept_pods(run, stages)


def _workers(run: UpdateRun, stages: list[Stage]) -> list[str]:
    names = {target.name for stage in stages if stage.noun == Node for target in stage.targets}
    nodes = (run.world.find(Node, "", name) for name in sorted(names))
    down = [node.name for node in nodes if node is not None and not is_ready(node)]
    if len(down) > 1:
        return [f"{len(down)} workers are not Ready: {some(down)}"]
    return [f"worker {name} is not Ready" for name in down]


def _controllers(run: UpdateRun, answers: PlanAnswers) -> list[str]:
    machines = {machine.name: machine for machine in run.world.all(ControlNode)}
    texts = [f"controller {text} is not ready" for text in not_ready(machines, answers)]
    busy = [machine.name for machine in machines.values() if is_busy(run, machine)]
    return [*texts, f"still in an update of another plan or run: {', '.join(busy)}"] if busy else texts


def _too_few_available(run: UpdateRun, stage: Stage) -> list[str]:
    if stage.noun != Node or run.rollout.max_unavailable is None:
        return []
    names, most = unavailable(run, stage), most_unavailable(run, stage)
    if len(names) < most:
        return []
    allowed = f"maxUnavailable {run.rollout.max_unavailable} of {len(stage.targets)} workers"
    return [f"{allowed} allows {most}, and {len(names)} are not Ready or cordoned: {some(names)}"]


def _kept_pods(run: UpdateRun, stages: list[Stage]) -> list[str]:
    """The pods that could not be evicted at this moment, a text for each reason."""
    if run.rollout.drain.strategy == "none":
        return []
    account = DisruptionAccount(run.world)
    kept: dict[str, list[str]] = {}
    for node in _drained(run, stages):
        for pod in leaving_pods(node, run.world):
            if why := account.why_kept(pod):
                kept.setdefault(f"{pod.namespace}: {why}", []).append(f"{pod.name} on {node.name}")
    return [f"drains would wait for pods in namespace {why}: {some(pods)}" for why, pods in kept.items()]


def _without_agent(run: UpdateRun) -> Iterator[str]:
    """The targets whose objects have no version, which the agent of a machine reports when it starts."""
    seen = set()
    for stage in run.stages:
        for target in stage.targets:
            machine = run.world.find(stage.noun, "", target.name)
            if machine is None or (machine.noun, machine.name) in seen:
                continue
            seen.add((machine.noun, machine.name))
            reported = machine.at("status", "k0sVersion", default="") if machine.noun == ControlNode else ""
            if not reported and RUNNING_VERSION not in machine.annotations:
                yield machine.name


def _drained(run: UpdateRun, stages: list[Stage]) -> Iterator[Object]:
    """The Nodes that are drained for these stages."""
    for stage in stages:
        for target in stage.targets if stage.part != "bundle" else ():
            machine = run.world.find(stage.noun, "", target.name)
            if machine is not None and stage.noun == ControlNode:
                machine = node_of(machine, run.world)
            if machine is not None:
                yield machine
