"""The checks before the first machine, in the order of their rank: see ``_problem``.

They are made once, with the discovery of the targets. A run that does not pass them ends at once, and no
machine is signalled.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.k0s.plan_validation import too_many_targets
from pilothouse.api.k0s.release_versions import newer
from pilothouse.api.k0s.v1beta2 import AirgapUpdate, PlanAnswers, PlanCommandStatus, PlanSpec
from pilothouse.api.kind_names import ControlNode
from pilothouse.controllers.plans import questions
from pilothouse.controllers.plans.discovery import discover
from pilothouse.controllers.plans.run_limits import StopReason
from pilothouse.controllers.plans.stages import PENDING, Stage, command_with_targets, stages_of_command
from pilothouse.controllers.plans.update_run import UpdateRun

TOO_MANY: Final = "TooManyTargets"
_WITHOUT_TARGETS: Final = ("Warning", TOO_MANY)
"""The reasons for which a run ends without its targets in the status: they don't matter, or don't fit."""
Exclusions = frozenset[str]
"""Kinds of machines that no plan may update: controller, worker."""


def check_and_discover(run: UpdateRun, exclude: Exclusions) -> None:
    """Find the targets of every command, or end the run with the first problem."""
    versions = versions_to_check(run.spec)
    answers = questions.answer(run, removed_apis=versions) if versions else None
    if versions and answers is None:
        return
    found = {one.name: one.at("status", "k0sVersion", default="") for one in run.world.all(ControlNode)}
    for number in range(len(run.spec.commands)):
        parts = [
            msgspec.structs.replace(stage, targets=discover(stage, run.rollout.waves, run.world, run.time))
            for stage in stages_of_command(run.spec, number)
        ]
        problem = _problem(run, parts, answers, found, exclude)
        command = PlanCommandStatus(id=number, state="SchedulableWait")
        if problem is None or problem.reason not in _WITHOUT_TARGETS:
            for stage in parts:
                command = command_with_targets(command, stage)
        run.status = msgspec.structs.replace(run.status, commands=(*run.status.commands, command))
        if problem is not None:
            run.end(*problem, command=number)
            return
    questions.use_up(run)
    run.status = msgspec.structs.replace(run.status, state="SchedulableWait")
    total = sum(len(stage.targets) for stage in run.stages)
    run.actions.append(f"the run has {total} targets")


def versions_to_check(spec: PlanSpec) -> tuple[str, ...]:
    """The versions for which removed APIs matter. A forced update is not checked; a bundle always is."""
    found: dict[str, None] = {}
    for command in spec.commands:
        if command.airgapupdate is not None:
            found[command.airgapupdate.version] = None
        if command.k0supdate is not None and not command.k0supdate.forceupdate:
            found[command.k0supdate.version] = None
    return tuple(found)


def _problem(
    run: UpdateRun,
    parts: list[Stage],
    answers: PlanAnswers | None,
    versions: dict[str, str],
    exclude: Exclusions,
) -> StopReason | None:
    """The problem of a command with the highest rank, if it has any. ``versions``: what each controller runs
    when the command begins; afterwards, what it runs when the next one does."""
    if text := _removed_apis(parts, answers) or _newer_workers(parts, versions):
        return StopReason("Warning", "Warning", text)
    names = [target.name for stage in (*run.stages, *parts) for target in stage.targets]
    if text := too_many_targets(run.spec, names):
        return StopReason("IncompleteTargets", TOO_MANY, text)
    lacking = [target for stage in parts for target in stage.targets if target.state != PENDING]
    if lacking:
        texts = [f"{target.name}: {target.description}" for target in lacking[:5]]
        more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
        return StopReason("IncompleteTargets", "IncompleteTargets", "; ".join(texts) + more)
    for stage in parts:
        kind = "controller" if stage.part == "controllers" else "worker"
        if stage.targets and kind in exclude:
            text = f"the controller-manager excludes {kind}s from plans (--exclude-from-plans)"
            return StopReason("Restricted", "Restricted", text)
    return None


def _removed_apis(parts: list[Stage], answers: PlanAnswers | None) -> str:
    found = {answer.version: answer.message for answer in answers.removed_apis} if answers else {}
    for stage in parts:
        if isinstance(stage.update, AirgapUpdate) or not stage.forced:
            version = stage.update.version
            if message := found.get(version, f"the APIs removed by {version} could not be looked up"):
                return message
    return ""


def _newer_workers(parts: list[Stage], versions: dict[str, str]) -> str:
    """Workers must not become newer than a controller that stays behind."""
    for stage in parts:
        if stage.part == "controllers":
            versions |= {target.name: stage.update.version for target in stage.targets}
        elif stage.part == "workers" and stage.targets and not stage.forced:
            older = [
                f"{name} ({running or 'unknown version'})"
                for name, running in sorted(versions.items())
                if newer(stage.update.version, running)
            ]
            if older:
                return (
                    f"workers would become newer ({stage.update.version}) than these controllers: "
                    + ", ".join(older)
                )
    return ""
