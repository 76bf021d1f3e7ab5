"""What a plan would do, found out by the code that does it.

    found = preview(plan, world, answers)
    found.state           # SchedulableWait, or the state as which it would end at once
    found.steps           # who, in which order, how many at once
    found.obstacles       # what would hold it at this moment

Nothing is written: the plan need not be stored.
"""

from __future__ import annotations

import msgspec

from pilothouse.api.k0s.v1beta2 import PlanAnswers, PlanQuestions
from pilothouse.api.kind_names import ControlNode, Node
from pilothouse.api.objects import Object
from pilothouse.controllers.plans import gates, run_lifecycle
from pilothouse.controllers.plans.controller_turns import not_ready
from pilothouse.controllers.plans.machines_in_progress import is_ready
from pilothouse.controllers.plans.run_limits import reason_to_hold
from pilothouse.controllers.plans.stages import Stage
from pilothouse.controllers.plans.start_checks import Exclusions, check_and_discover, versions_to_check
from pilothouse.controllers.plans.update_run import UpdateRun
from pilothouse.controllers.plans.waves import in_waves
from pilothouse.controllers.plans.worker_turns import concurrent
from pilothouse.runtime.snapshot import Snapshot


class PreviewStep(msgspec.Struct, frozen=True):
    """Machines of one command that are updated after those of the step before."""

    command: int
    title: str
    """What happens: controllers to v1.31.0, one at a time."""
    machines: tuple[str, ...]


class PlanPreview(msgspec.Struct, frozen=True):
    state: str
    description: str
    """Why it would end at once; empty if it would not."""
    steps: tuple[PreviewStep, ...] = ()
    obstacles: tuple[str, ...] = ()


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
    return PlanPreview(run.status.state, "", steps, tuple(_obstacles(run, answers)))


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
    found = []
    if (hold := reason_to_hold(run)) is not None:
        found.append(hold.because)
    machines = {machine.name: machine for machine in run.world.all(ControlNode)}
    if any(stage.part == "controllers" and stage.targets for stage in run.stages):
        found += [f"controller {text} is not ready" for text in not_ready(machines, answers)]
    if gates.has_gates(run, "before"):
        found += gates.shut(run, "before", answers)
    names = {target.name for stage in run.stages if stage.noun == Node for target in stage.targets}
    for name in sorted(names):
        node = run.world.find(Node, "", name)
        if node is not None and not is_ready(node):
            found.append(f"worker {name} is not Ready")
    return found
