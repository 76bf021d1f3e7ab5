"""The turns of workers: Ready ones, in the order of waves and names, as many at once as the limits allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.k0s.release_versions import newer
from pilothouse.api.k0s.v1beta2 import RUNNING_VERSION, TargetStatus
from pilothouse.api.kind_names import ControlNode, Node
from pilothouse.api.objects import Object
from pilothouse.controllers.plans import gate_waits, gates, questions
from pilothouse.controllers.plans.controller_turns import NOT_READY
from pilothouse.controllers.plans.discovery import platform_problem
from pilothouse.controllers.plans.machines_in_progress import failed, is_ready, send
from pilothouse.controllers.plans.stages import (
    FAILURES,
    NO_MACHINE,
    NO_PLATFORM,
    PENDING,
    SENT,
    Stage,
    Targets,
)
from pilothouse.controllers.plans.update_run import UpdateRun, moment, some, stamped
from pilothouse.controllers.plans.waves import next_wave
from pilothouse.meta.int_or_percent import scaled

_LONGEST_VERSION: Final = 64
"""Characters of a version that the status keeps."""


def worker_turns(run: UpdateRun, stage: Stage) -> None:
    """Begin as many workers as there are places."""
    if behind := _controllers_behind(run, stage):
        run.wait(
            "ControllersBehind",
            f"workers wait until every controller runs {stage.update.version}: {', '.join(behind)}",
            remedy="update these controllers, or delete the ControlNodes of those that are gone for good",
        )
        return
    wave, members = next_wave(stage.targets, run.rollout.waves)
    pending = tuple(target for target in members if target.state == PENDING)
    places = concurrent(stage) - len(stage.in_progress)
    if not pending or places < 1:
        _wait_for_progress(run, stage)
        return
    space = room(run, stage)
    if space is not None and space < 1:
        costless = _costless(run, stage, pending)
        if costless != pending:
            _wait_for_room(run, stage)
        pending = costless
    elif space is not None:
        places = min(places, space)
    _begin(run, stage, pending, places, f" of wave {wave}" if wave else "")


def concurrent(stage: Stage) -> int:
    """How many machines of a stage may be in progress at once."""
    limit = stage.target.limits.concurrent if stage.target is not None else 1
    return max(1, scaled(limit, len(stage.targets), up=True))


def _controllers_behind(run: UpdateRun, stage: Stage) -> list[str]:
    """The controllers that report an older version than the workers would get."""
    if stage.forced or stage.part != "workers":
        return []
    running = ((one.name, one.at("status", "k0sVersion", default="")) for one in run.world.all(ControlNode))
    version = stage.update.version
    return [f"{name} ({text or 'unknown'})" for name, text in running if newer(version, running=text)]


def room(run: UpdateRun, stage: Stage) -> int | None:
    """How many more workers may become unavailable by ``maxUnavailable``; None if it sets no limit."""
    if run.rollout.max_unavailable is None:
        return None
    return most_unavailable(run, stage) - len(unavailable(run, stage))


def most_unavailable(run: UpdateRun, stage: Stage) -> int:
    """How many workers of a stage may be unavailable by ``maxUnavailable``; all of them without it."""
    limit, count = run.rollout.max_unavailable, len(stage.targets)
    return count if limit is None else max(1, scaled(limit, count, up=True))


def unavailable(run: UpdateRun, stage: Stage) -> list[str]:
    """The workers of a stage that are in progress, not Ready or cordoned."""
    return [target.name for target in stage.targets if is_unavailable(run, target)]


def is_unavailable(run: UpdateRun, target: TargetStatus) -> bool:
    node = run.world.find(Node, "", target.name)
    return target.state == SENT or node is None or not is_ready(node) or bool(node.spec.get("unschedulable"))


def _costless(run: UpdateRun, stage: Stage, pending: Targets) -> Targets:
    """The workers whose turn comes although no other may become unavailable: those that are cordoned and
    Ready. While none is in progress, also those that are not Ready: they hold up the others, and fail after
    ``nodeDeadline``."""
    down = tuple(target for target in pending if is_unavailable(run, target))
    if not stage.in_progress:
        return down
    nodes = ((target, run.world.find(Node, "", target.name)) for target in down)
    return tuple(target for target, node in nodes if node is not None and is_ready(node))


def _wait_for_progress(run: UpdateRun, stage: Stage) -> None:
    if stage.in_progress:
        names = some([f"{target.name} ({target.step or 'signalled'})" for target in stage.in_progress])
        run.wait("InProgress", f"workers in progress: {names}")


def _wait_for_room(run: UpdateRun, stage: Stage) -> None:
    run.wait(
        "TooManyUnavailable",
        "as many workers are in progress, not Ready or cordoned as spec.rollout.maxUnavailable allows: "
        f"{some(unavailable(run, stage))}",
        remedy="get these workers Ready, uncordon them, or raise maxUnavailable in the next run",
    )


def _begin(run: UpdateRun, stage: Stage, pending: Targets, places: int, wave: str) -> None:
    changed: list[TargetStatus] = []
    chosen: list[tuple[TargetStatus, Object]] = []
    for target, node in _candidates(run, stage, pending, changed):
        if len(chosen) + sum(one.state == SENT for one in changed) >= places:
            break
        chosen.append((target, node))
        if len(chosen) == places:
            break
    # Whether one that has failed stops the run is decided before anything else begins.
    may_begin = not any(target.state in FAILURES for target in changed)
    if chosen and may_begin and _gates_open(run, [target for target, _ in chosen], changed):
        begun = [_begun(run, stage, target, node) for target, node in chosen]
        changed += begun
        text = f"updated to {stage.update.version}{wave}: {some([target.name for target in begun])}"
        run.actions.append(text)
        run.event("UpdateStarted", text)
    _report(run, changed, chosen)
    run.change(stage.with_changes(changed))


def _begun(run: UpdateRun, stage: Stage, target: TargetStatus, node: Object) -> TargetStatus:
    # What its agent reports of the program; without one, what comes nearest.
    running = node.annotations.get(RUNNING_VERSION) or node.at(
        "status", "nodeInfo", "kubeletVersion", default=""
    )
    begun = stamped(
        target,
        run.time,
        state=SENT,
        step="",
        description="",
        started_time=run.time,
        previous_version=running[:_LONGEST_VERSION],
    )
    send(run, stage, node, begun)
    return begun


def _candidates(
    run: UpdateRun, stage: Stage, pending: Targets, changed: list[TargetStatus]
) -> Iterator[tuple[TargetStatus, Object]]:
    """The workers that may begin, in order. What is found out about the others goes into ``changed``."""
    without_bundle = _failed_bundles(run, stage)
    for target in pending:
        node = run.world.find(Node, "", target.name)
        if node is None:
            changed.append(failed(run, target, "its Node is gone", NO_MACHINE))
        elif target.name in without_bundle:
            why = f"it is not updated, because its bundle failed: {without_bundle[target.name]}"
            changed.append(failed(run, target, why))
        elif (signal := run.turn(stage).find(node)) is not None:
            changed.append(
                stamped(target, run.time, state=SENT, step=signal.step, started_time=signal.created)
            )
        elif problem := platform_problem(node, stage):
            changed.append(failed(run, target, problem, NO_PLATFORM))
        elif is_ready(node):
            yield target, node
        else:
            changed.append(_not_ready(run, target))


def _failed_bundles(run: UpdateRun, stage: Stage) -> dict[str, str]:
    """The workers without the bundle that comes first in the same command, and what went wrong with it."""
    return {
        target.name: target.description
        for one in run.stages
        if stage.part == "workers" and one.command == stage.command and one.part == "bundle"
        for target in one.targets
        if target.state in FAILURES
    }


def _not_ready(run: UpdateRun, target: TargetStatus) -> TargetStatus:
    text = "its turn has come, but the Node is not Ready"
    waiting = stamped(target, run.time, step=NOT_READY, description=text)
    due = moment(waiting.last_updated_timestamp) + run.node_deadline
    if due <= run.now:
        why = f"the Node did not get Ready within its nodeDeadline of {run.rollout.node_deadline}"
        return failed(run, target, why)
    run.look_at(due)
    return waiting


def _gates_open(run: UpdateRun, chosen: list[TargetStatus], changed: list[TargetStatus]) -> bool:
    if not gates.has_gates(run, "before"):
        return True
    answers = questions.answered(run, gates=True)
    if answers is None:
        if not gate_waits.keep_holding(run, chosen):
            questions.wait(run)
        return False
    if closed := gates.shut(run, "before", answers):
        if moment(answers.time) + questions.ASK_AGAIN <= run.now:
            questions.ask(run, gates=True)
        changed += gate_waits.hold(run, chosen, closed)
        return False
    questions.use_up(run)
    return True


def _report(run: UpdateRun, changed: list[TargetStatus], chosen: list[tuple[TargetStatus, Object]]) -> None:
    for target in changed:
        if target.state in FAILURES:
            run.event("UpdateFailed", f"{target.name}: {target.description}", warning=True)
    waiting = [target.name for target in changed if target.step == NOT_READY and target.state == PENDING]
    if waiting and not chosen:
        run.wait(
            "WorkersNotReady",
            f"not Ready: {some(waiting)}",
            remedy="each fails after spec.rollout.nodeDeadline if it does not get Ready",
        )
