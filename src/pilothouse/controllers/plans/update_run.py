"""One decision about a run: what it knows, and what it has decided so far.

run = UpdateRun(plan, world)
run.change(targets_of_a_stage)
run.signal(machine, annotations, because="…")
run.wait("Paused", "the plan is paused", remedy="…")
yield from run.intents()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from pilothouse.api.k0s.rollout import Rollout
from pilothouse.api.k0s.signals import Signal
from pilothouse.api.k0s.v1beta2 import PlanSpec, PlanState, PlanStatus, TargetStatus
from pilothouse.api.objects import Object
from pilothouse.base.duration import parse_duration
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.controllers.plans import run_lifecycle
from pilothouse.controllers.plans.stages import Stage, stages, with_targets
from pilothouse.controllers.plans.turn_signals import SignalScope
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, RequeueAfter, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

_MOST_NAMES: Final = 10
"""How many machines an event or a wait names."""
_LATEST: Final = 3600.0
"""Seconds: a decision is taken again after this time in any case, whatever the clock does."""


class UpdateRun:
    """The run of a plan, in one decision. Its rollout is read once the run has started."""

    def __init__(self, plan: Object, world: Snapshot) -> None:
        self.plan = plan
        self.world = world
        self.now = world.now
        self.time = format_time(world.now)
        self.wanted = run_lifecycle.read_spec(plan)
        self.before = run_lifecycle.read_status(plan)
        self.status = self.before
        self.waits: list[Wait] = []
        self.actions: list[str] = []
        """What was decided, in words."""
        self.reason = ""
        """Why the run ended, in one word, if it did in this decision."""
        self._signals: list[PatchObject] = []
        self._events: list[RecordEvent] = []
        self._next_look: float | None = None

    @property
    def spec(self) -> PlanSpec:
        """The spec that runs."""
        return self.status.spec or self.wanted

    @cached_property
    def rollout(self) -> Rollout:
        """The rollout that runs; what may change in a run is as it is wanted now."""
        wanted = run_lifecycle.rollout_of(self.wanted)
        rollout = run_lifecycle.rollout_of(self.spec)
        return msgspec.structs.replace(rollout, paused=wanted.paused, aborted=wanted.aborted)

    @cached_property
    def node_deadline(self) -> float:
        """Seconds that a machine may take."""
        return parse_duration(self.rollout.node_deadline)

    @cached_property
    def soak(self) -> float:
        """Seconds that a machine has to stay ready after its update."""
        return parse_duration(self.rollout.soak) if self.rollout.soak else 0.0

    @property
    def stages(self) -> list[Stage]:
        return list(stages(self.spec, self.status))

    @property
    def stage(self) -> Stage | None:
        """The first stage that is not finished; its command is the one that runs."""
        return next((stage for stage in self.stages if not stage.finished), None)

    def turn(self, stage: Stage, *, rollback: bool = False) -> SignalScope:
        return SignalScope(
            plan_id=self.spec.id or self.plan.uid,
            plan_uid=self.plan.uid,
            generation=self.status.run_generation or 0,
            command=stage.command,
            update=stage.update,
            rollback=rollback,
        )

    def has_signalled(self, signal: Signal) -> bool:
        """Whether a signal is of this run, whatever its command."""
        return signal.plan_uid == self.plan.uid and signal.generation == (self.status.run_generation or 0)

    def change(self, stage: Stage) -> None:
        """Record the targets of a stage."""
        self.status = with_targets(self.status, stage)

    def signal(self, machine: Object, annotations: Mapping[str, str], because: str) -> None:
        """Signal a machine, after the status is written."""
        fields = {"metadata": {"annotations": dict(annotations)}}
        self._signals.append(PatchObject(machine, fields, exact=True, independent=True, because=because))

    def event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._events.append(RecordEvent(self.plan, event=reason, because=message, warning=warning))

    def wait(self, reason: str, because: str, *, remedy: str = "", until: float | None = None) -> None:
        """Say what the run waits for, and when it looks again in any case."""
        self.look_at(until if until is not None else self.now + _LATEST)
        self.waits.append(Wait(reason, because=because, remedy=remedy))

    def look_at(self, moment: float) -> None:
        """Decide again at this moment, if not before."""
        self._next_look = moment if self._next_look is None else min(self._next_look, moment)

    def end(self, state: PlanState, reason: str, description: str, *, command: int | None = None) -> None:
        """End the run. The command, or else the one that runs, says why, too."""
        if state == "Completed":
            commands = tuple(msgspec.structs.replace(one, state=state) for one in self.status.commands)
            self.status = msgspec.structs.replace(self.status, commands=commands)
        else:
            if command is None:
                stage = self.stage
                command = stage.command if stage is not None else len(self.status.commands) - 1
            self.status = _with_command(self.status, command, state, description)
        if self.rollout.aborted:
            spec = msgspec.structs.replace(self.spec, rollout=self.rollout)
            self.status = msgspec.structs.replace(self.status, spec=spec)
        self.status = run_lifecycle.ended(self.status, state, description, self.time)
        self.actions.append(description)
        self.reason = reason
        self.event(reason, description, warning=state != "Completed")

    def intents(self) -> Iterator[Intent]:
        """The status first: it says whose turn it is before the machine hears of it."""
        looked_at = msgspec.structs.replace(self.before, observed_generation=self.plan.generation)
        self.status = msgspec.structs.replace(self.status, observed_generation=self.plan.generation)
        if self.status != self.before:
            why = "the targets have made progress" if self.status != looked_at else "it was looked at"
            because = "; ".join(self.actions) or why
            yield SetStatus(self.plan, run_lifecycle.write_status(self.status), because=because)
        yield from self._events
        yield from self._signals
        yield from self.waits
        if self._next_look is not None:
            pause = min(max(0.1, self._next_look - self.now), _LATEST)
            yield RequeueAfter(pause, because="a deadline, a window or an answer is due")


def stamped(target: TargetStatus, now: str, **changes: object) -> TargetStatus:
    """The target with changes, and the time if its state or step is another."""
    changed = msgspec.structs.replace(target, **changes)
    if (changed.state, changed.step) != (target.state, target.step):
        changed = msgspec.structs.replace(changed, last_updated_timestamp=now)
    return changed


def some(names: list[str]) -> str:
    """The first of these names, and how many there are besides."""
    left = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {left} more" if left > 0 else "")


def moment(text: str | None) -> float:
    """Seconds since 1970 of a time in a status; 0 if there is none."""
    return parse_time(text) if text else 0.0


def _with_command(status: PlanStatus, number: int, state: PlanState, description: str) -> PlanStatus:
    if number >= len(status.commands):
        return status
    commands = list(status.commands)
    commands[number] = msgspec.structs.replace(commands[number], state=state, description=description)
    return msgspec.structs.replace(status, commands=tuple(commands))
