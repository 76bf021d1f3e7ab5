"""The turn of a machine: the signal that asks for it, the Node to drain, and whether the plan still wants it.

turn = find_turn(holder, node, world)           # None if there is nothing to do
yield moved(turn, APPLYING, "", world.now)
yield from explained(turn, "draining node w1: …")
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.k0s.signals import Signal, SignalError, read_signal
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import ControlNode, Node, Plan
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.drains.cordons import CORDONED_BY, DRAIN_STARTED
from pilothouse.runtime.intents import Intent, ObjectTarget, PatchObject
from pilothouse.runtime.snapshot import Snapshot

MODE: Final = "autopilot.k0sproject.io/mode"
"""On a ControlNode: controller, or controller+worker."""
PURE: Final = "controller"
HOSTNAME: Final = "kubernetes.io/hostname"
FAILED_STATES: Final = ("SignalApplyFailed", "SignalMissingNode", "SignalMissingPlatform")


class MachineTurn(msgspec.Struct, frozen=True):
    """A machine in progress: the object that has the signal, the Node to drain, and the plan."""

    holder: Object
    signal: Signal
    node: Object | None
    plan: Object | None
    """None if the turn is over whatever the signal says."""
    over: str = ""
    """Why it is over."""
    is_early: bool = False
    """The run of the plan is not known here yet."""
    unless: tuple[ObjectTarget, ...] = ()
    """A plan that does not exist as far as is known here, with which the turn would not be over."""

    @property
    def target(self) -> str:
        """What the machine is updated to, for people."""
        update = self.signal.command.k0supdate
        version = update.version if update is not None else ""
        return f"back from {version}" if self.signal.rollback else f"to {version}"


def find_turn(holder: Object, node: Object | None, world: Snapshot) -> MachineTurn | None:
    """The turn of a machine by the signal on this object; None if it is over or nothing is drained for it."""
    try:
        signal = read_signal(holder.annotations)
    except SignalError:
        # Reported by the plan, which sends another one.
        return None
    if signal is None or signal.ended or signal.command.k0supdate is None or not signal.plan_uid:
        # Without a uid it is a signal of another autopilot, which cordons by itself.
        return None
    plan = world.find(Plan, "", RUNNING_PLAN)
    if plan is None or plan.uid != signal.plan_uid:
        # The signal may have arrived here before its plan.
        unless = (ObjectTarget(Plan, "", RUNNING_PLAN, signal.plan_uid),)
        return MachineTurn(holder, signal, node, None, f"plan {signal.plan_id} was deleted", unless=unless)
    if plan.deleting:
        return MachineTurn(holder, signal, node, None, f"plan {signal.plan_id} is being deleted")
    running = plan.status.get("runGeneration") or 0
    if running > signal.generation:
        return MachineTurn(holder, signal, node, None, f"plan {signal.plan_id} has another run")
    if running < signal.generation:
        # The signal has arrived here before the plan's status, which triggers the next decision.
        return MachineTurn(holder, signal, node, plan, is_early=True)
    target = {} if signal.rollback else _target(plan, signal.command.id, holder)
    if target.get("state") in FAILED_STATES:
        why = target.get("description") or target["state"]
        return MachineTurn(holder, signal, node, None, f"the plan counts the machine as failed: {why}")
    return MachineTurn(holder, signal, node, plan)


def _target(plan: Object, command: int, holder: Object) -> Mapping[str, Any]:
    """The plan's record of a machine; its lists are sorted by name, and may be long."""
    commands = plan.status.get("commands") or ()
    if not 0 <= command < len(commands):
        return {}
    group = "controllers" if holder.noun == ControlNode else "workers"
    targets = (commands[command].get("k0supdate") or {}).get(group) or ()
    index = bisect_left(targets, holder.name, key=lambda each: each.get("name", ""))
    found = targets[index] if index < len(targets) else {}
    return found if found.get("name") == holder.name else {}


def node_of(control_node: Object, world: Snapshot) -> Object | None:
    """The Node of a controller that is a worker too."""
    if control_node.annotations.get(MODE) == PURE:
        return None
    hostname = control_node.labels.get(HOSTNAME) or control_node.name
    named = world.find(Node, "", hostname)
    if named is not None:
        return named
    return next((node for node in world.all(Node) if node.labels.get(HOSTNAME) == hostname), None)


def is_host(control_node: Object, node: Object) -> bool:
    """Whether a controller and a Node are the same machine."""
    hostname = control_node.labels.get(HOSTNAME) or control_node.name
    return hostname in (node.name, node.labels.get(HOSTNAME))


def is_in_progress(machine: Object) -> bool:
    """Whether there is something to do for a machine, or to take back. A signal stays after its end."""
    if CORDONED_BY in machine.annotations or DRAIN_STARTED in machine.annotations:
        return True
    try:
        signal = read_signal(machine.annotations)
    except SignalError:
        return False
    return signal is not None and not signal.ended


def moved(turn: MachineTurn, step: str, reason: str, now: float) -> PatchObject:
    """Move the signal on to a step."""
    signal = turn.signal.advanced(step, format_time(now), reason)
    because = reason or f"{turn.holder.name} goes on to {step}"
    fields = {"metadata": {"annotations": signal.annotations()}}
    return PatchObject(turn.holder, fields, exact=True, unless=turn.unless, because=because)


def explained(turn: MachineTurn, reason: str) -> Iterator[Intent]:
    """Write what is waited for into the signal, if it is not there yet. The time of the step stays."""
    status = turn.signal.status
    if status is None:
        return
    explained = turn.signal.advanced(status.status, status.timestamp, reason)
    if explained.status is not None and explained.status.reason != status.reason:
        fields = {"metadata": {"annotations": explained.annotations()}}
        yield PatchObject(turn.holder, fields, exact=True, because=reason)
