"""UpdateConfigs follow a channel, and make Plan ``autopilot`` when it has something newer.

A check is asked for by counting ``status.check`` up. An observer asks the channel and answers in
``status.answer`` with that number; the decision is a function of the answer, the Plan and the machines.

* With a window (``periodic``) the channel is checked every ten minutes, also while the window is closed. A
  Plan is made while it is open, if any target runs something older: machines that join late follow. With a
  schedule (``cron``) the channel is checked on schedule, and a Plan is made unless one has completed with
  that version already.
* A Plan that runs is left alone. One that failed blocks until it is corrected or deleted, or a newer
  version is offered. One that completed is replaced, which starts a new run.
* Of several UpdateConfigs the first by name acts: there is one Plan.

The condition ``Progressing`` says what happens, or why nothing does; ``Checked`` how the last check went.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pilothouse.api.k0s.cron import next_time
from pilothouse.api.k0s.release_versions import newer
from pilothouse.api.k0s.update_windows import UpdateWindow
from pilothouse.api.k0s.upgrade_strategies import schedule_of, window_of
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import ControlNode, Node, Plan, UpdateConfig
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.controllers.plans.run_lifecycle import (
    has_ended,
    read_spec,
    read_status,
    rollout_of,
    wants_run,
)
from pilothouse.controllers.update_configs.plan_template import NotOffered, plan_tree, planned_commands
from pilothouse.controllers.update_configs.running_versions import older_targets, silent_targets
from pilothouse.meta.conditions import find_condition, with_condition
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Apply, Intent, RequeueAfter, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

CHECK_INTERVAL: Final = 600.0
"""Seconds between two checks of a channel that is followed in windows."""
_FUTURE: Final = 60.0
"""Seconds by which an answer may be ahead of the clock; beyond that the clock was set back."""
_NAMED: Final = 3


class Outcome(msgspec.Struct, frozen=True):
    """What follows from an answer: a Plan, or the reason why there is none."""

    reason: str
    message: str
    progressing: bool = False
    plan: Tree | None = None
    remedy: str = ""


def every_config(changed: Object, world: Snapshot) -> Names:
    """All of them: which one acts depends on the others, and what it does on the Plan."""
    return [one.key for one in world.all(UpdateConfig)]


@controller(
    UpdateConfig,
    also={UpdateConfig: every_config, Plan: every_config},
    reads=(ControlNode, Node),
    serial=True,
)
def update_configs(config: Object, world: Snapshot) -> Iterator[Intent]:
    """Ask for a check when it is due; act on its answer."""
    if config.deleting:
        return
    first = next(one for one in world.all(UpdateConfig) if not one.deleting)
    if config.name != first.name:
        message = f"UpdateConfig {first.name} comes first by name, and of several only the first acts"
        outcome = Outcome("NotFirst", message, remedy="delete one of them")
        yield from _report(config, dict(config.status), outcome, world.now)
        yield Wait(outcome.reason, because=message, remedy=outcome.remedy)
        return
    status = {**config.status, "observedGeneration": config.generation}
    due = _next_check(config, world.now)
    if due is not None and due <= world.now:
        status["check"] = config.status.get("check", 0) + 1
        yield SetStatus(config, status, because="a check of the channel is due")
        return
    answer = config.status.get("answer")
    if answer is not None and answer.get("number") != config.status.get("check", 0):
        yield Wait("Checking", because="the channel is being checked")
        return
    if answer is None:
        when = format_time(due) if due is not None else "never"
        outcome = Outcome(
            "NotChecked", f"the channel has not been checked yet; the next check is due: {when}"
        )
    else:
        status |= _answered(config, answer, world.now)
        outcome = _outcome(config, answer, world)
    if outcome.plan is not None:
        yield Apply(outcome.plan, because=outcome.message, event="PlanCreated")
    yield from _report(config, status, outcome, world.now)
    yield from _pause(config, outcome, due, world.now)


def _next_check(config: Object, now: float) -> float | None:
    """When the channel is to be checked next; None if that is not known, or while a check is under way."""
    status, answer = config.status, config.status.get("answer") or {}
    number, schedule = status.get("check", 0), schedule_of(config.spec["upgradeStrategy"])
    seen = status.get("observedGeneration")
    if seen is not None and seen != config.generation:
        return now
    if number != answer.get("number", 0):
        return None
    last = parse_time(answer["time"]) if answer.get("time") else None
    if last is not None and last > now + _FUTURE:
        return now
    if schedule is None:
        return now if last is None else last + CHECK_INTERVAL
    after = datetime.fromtimestamp(config.created if last is None else last, UTC)
    due = next_time(schedule, after)
    return due.timestamp() if due is not None else None


def _answered(config: Object, answer: Mapping[str, Any], now: float) -> Tree:
    """What the status says of an answer; None removes."""
    window = _window(config)
    moment = datetime.fromtimestamp(now, UTC)
    opening = None
    if window is not None and window.open_until(moment) is None:
        opening = format_time(window.next_opening(moment).timestamp())
    return {
        "lastCheckTime": answer.get("time"),
        "availableVersion": answer.get("version") or None,
        "nextWindow": opening,
    }


def _outcome(config: Object, answer: Mapping[str, Any], world: Snapshot) -> Outcome:
    version = answer.get("version") or ""
    if not version:
        return Outcome("NoOffer", answer.get("message") or "the channel offers nothing")
    try:
        commands = planned_commands(config.spec.get("planSpec"), answer)
    except NotOffered as problem:
        return Outcome("NoOffer", str(problem))
    plan = world.find(Plan, "", RUNNING_PLAN)
    if plan is not None and _runs(plan):
        return Outcome(
            "PlanRunning", f"Plan {plan.name} runs: {', '.join(_versions(plan))}", progressing=True
        )
    why = _why_update(config, version, commands, plan, world)
    failed = plan is not None and not _is_completed(plan) and not _is_newer(version, plan)
    if not why and not (failed and silent_targets(commands, world)):
        return Outcome("UpToDate", f"{version} is offered, and no target reports an older version")
    if plan is not None and failed:
        state = plan.status.get("state") or "aborted"
        ended = f"Plan {plan.name} for {', '.join(_versions(plan))} ended as {state}"
        detail = _failure(plan)
        return Outcome(
            "PlanFailed",
            f"{ended}{f' ({detail})' if detail else ''}, and nothing newer is offered",
            remedy="correct or delete the plan, or publish a newer version",
        )
    window = _window(config)
    moment = datetime.fromtimestamp(world.now, UTC)
    if window is not None and window.open_until(moment) is None:
        opening = format_time(window.next_opening(moment).timestamp())
        return Outcome("OutsideWindow", f"{why}; the window opens at {opening}")
    return Outcome("PlanCreated", why, progressing=True, plan=plan_tree(config, answer, commands, plan))


def _why_update(
    config: Object, version: str, commands: list[Tree], plan: Object | None, world: Snapshot
) -> str:
    """Why there should be an update to the offered version; empty if there is no reason."""
    older = older_targets(version, commands, plan, world)
    if older:
        more = f" and {len(older) - _NAMED} more" if len(older) > _NAMED else ""
        return f"{version} is newer than what runs on {', '.join(older[:_NAMED])}{more}"
    if not any("k0supdate" in command for command in commands):
        known = plan is not None and not _is_newer(version, plan) and _is_completed(plan)
        return "" if known else f"the bundle of {version} has not been brought to the workers"
    planned = plan is not None and version in _versions(plan) and _is_completed(plan)
    if window_of(config.spec["upgradeStrategy"]) is None and not planned:
        return f"{version} is offered, and no plan for it has completed"
    return ""


def _runs(plan: Object) -> bool:
    """Whether a plan runs, or has a spec that is still to run."""
    spec, status = read_spec(plan), read_status(plan)
    if status.spec is None:
        return not rollout_of(spec).aborted
    return wants_run(spec, status) or not has_ended(status)


def _is_completed(plan: Object) -> bool:
    return plan.status.get("state") == "Completed"


def _versions(plan: Object) -> list[str]:
    """The versions of a plan, each once."""
    updates = (
        command.get(kind) for command in plan.spec["commands"] for kind in ("k0supdate", "airgapupdate")
    )
    return list(dict.fromkeys(update["version"] for update in updates if update))


def _is_newer(version: str, plan: Object) -> bool:
    return all(newer(version, each) for each in _versions(plan))


def _failure(plan: Object) -> str:
    """What a failed plan says about itself."""
    failed = find_condition(plan.status.get("conditions"), "Failed")
    if failed is not None and failed.get("status") == "True" and failed.get("message"):
        return str(failed["message"])
    descriptions = (command.get("description") for command in plan.status.get("commands") or ())
    return next((str(each) for each in descriptions if each), "")


def _report(config: Object, status: Tree, outcome: Outcome, now: float) -> Iterator[Intent]:
    """Set the status, if it changes."""
    moment = format_time(now)
    conditions = status.get("conditions")
    if (answer := status.get("answer")) is not None:
        failed = str(answer.get("message") or "")
        checked = {
            "type": "Checked",
            "status": "False" if failed else "True",
            "reason": "CheckFailed" if failed else "Answered",
            "message": failed,
        }
        conditions = with_condition(conditions, checked, now=moment)
    message = f"{outcome.message}; {outcome.remedy}" if outcome.remedy else outcome.message
    progressing = {
        "type": "Progressing",
        "status": "True" if outcome.progressing else "False",
        "reason": outcome.reason,
        "message": message,
    }
    status["conditions"] = with_condition(conditions, progressing, now=moment)
    status = {name: value for name, value in status.items() if value is not None}
    if status != config.status:
        yield SetStatus(config, status, because=outcome.message)


def _pause(config: Object, outcome: Outcome, due: float | None, now: float) -> Iterator[Intent]:
    """Until the next check, or the opening of the window."""
    moments = [due] if due is not None else []
    if (window := _window(config)) is not None:
        moment = datetime.fromtimestamp(now, UTC)
        edge = window.open_until(moment) or window.next_opening(moment)
        moments.append(edge.timestamp())
    seconds = max(0.0, min(moments) - now) if moments else None
    if outcome.progressing or outcome.reason == "UpToDate":
        if seconds is not None:
            yield RequeueAfter(seconds, because="the channel is checked again then, or the window changes")
    else:
        yield Wait(outcome.reason, because=outcome.message, remedy=outcome.remedy, seconds=seconds)


def _window(config: Object) -> UpdateWindow | None:
    tree = window_of(config.spec["upgradeStrategy"])
    return UpdateWindow.parse(tree) if tree is not None else None
