"""A plan's status as text.

    for line in plan_lines(plan, now=clock.now()): print(line)

Of many machines only those are listed that are in progress or held, or have failed; the others are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from pilothouse.api.k0s.v1beta2 import PlanCommandStatus, PlanStatus, TargetStatus
from pilothouse.api.objects import Object
from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import parse_time

_MOST_LISTED: Final = 12
_WORDS: Final = {
    "SignalPending": "pending",
    "SignalSent": "in progress",
    "SignalCompleted": "done",
    "SignalMissingNode": "missing",
    "SignalMissingPlatform": "no download",
    "SignalApplyFailed": "failed",
    "SignalRolledBack": "rolled back",
}


def plan_lines(plan: Object, *, now: float) -> Iterator[str]:
    """The state of the plan, what it waits for, and its machines."""
    status = msgspec.convert(plan.status, PlanStatus)
    state = status.state or "not started"
    done = f", {status.progress} done" if status.progress else ""
    yield f"Plan {plan.name}: {state}{done}{_times(status, now)}"
    for condition in status.conditions:
        if condition.message and (condition.type == "Progressing" or condition.status == "True"):
            yield f"  {condition.type} ({condition.reason}): {condition.message}"
    for command in status.commands:
        yield from _command_lines(status, command, now)


def _times(status: PlanStatus, now: float) -> str:
    if status.started_time is None:
        return ""
    began = f", started {human_age(now - parse_time(status.started_time))} ago"
    if status.completed_time is None:
        return began
    took = parse_time(status.completed_time) - parse_time(status.started_time)
    return f"{began}, took {human_age(took)}"


def _command_lines(status: PlanStatus, command: PlanCommandStatus, now: float) -> Iterator[str]:
    wanted = status.spec.commands[command.id] if status.spec else None
    if command.airgapupdate is not None:
        version = wanted.airgapupdate.version if wanted and wanted.airgapupdate else ""
        yield from _target_lines(f"bundle {version}", command.airgapupdate.workers, now)
    if command.k0supdate is not None:
        version = wanted.k0supdate.version if wanted and wanted.k0supdate else ""
        yield from _target_lines(f"controllers to {version}", command.k0supdate.controllers, now)
        yield from _target_lines(f"workers to {version}", command.k0supdate.workers, now)


def _target_lines(title: str, targets: tuple[TargetStatus, ...], now: float) -> Iterator[str]:
    if not targets:
        return
    counts = Counter(_WORDS.get(target.state, target.state) for target in targets)
    numbers = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    yield f"{title}: {numbers}"
    for target in targets:
        if len(targets) <= _MOST_LISTED or not _is_quiet(target):
            yield f"  {_target_line(target, now)}"


def _is_quiet(target: TargetStatus) -> bool:
    """Whether it is done, or its turn has not come: one that a gate holds, say, has a step."""
    return target.state == "SignalCompleted" or (target.state == "SignalPending" and not target.step)


def _target_line(target: TargetStatus, now: float) -> str:
    parts = [f"{target.name:<24}", f"{_WORDS.get(target.state, target.state):<12}"]
    if not _is_quiet(target):
        parts.append(f"{target.step:<15}")
        if target.last_updated_timestamp:
            parts.append(f"{human_age(now - parse_time(target.last_updated_timestamp)):<7}")
    return " ".join([*parts, target.description]).rstrip()
