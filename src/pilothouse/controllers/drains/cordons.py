"""Cordons: what is written to a Node that is drained, and taken back.

PatchObject(node, cordon(signal, now), …)       # unschedulable, by this plan, since now
drain_started(signal, node)                     # since when it is drained for this turn
PatchObject(node, uncordon(node), …)            # only what was written here
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.k0s.signals import Signal
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time, parse_time

CORDONED_BY: Final = "autopilot.k0sproject.io/cordoned-by"
"""On a Node that a plan has cordoned: the uid of the plan."""
DRAIN_STARTED: Final = "autopilot.k0sproject.io/drain-started"
"""On a Node that is drained: since when, by the clock of the leader, and for which turn."""
FORCE_WAIT: Final = "autopilot.k0sproject.io/force-wait"
"""On a Node whose pods are to be deleted by force: how far that wait is, since when, and for which turn."""


def cordon(signal: Signal, now: float) -> Tree:
    """Cordon a Node for a drain that starts now."""
    annotations = {CORDONED_BY: signal.plan_uid, **started(signal, now)}
    return {"spec": {"unschedulable": True}, "metadata": {"annotations": annotations}}


def uncordon(node: Object) -> Tree:
    """Take back what was done to a Node here; empty if nothing was."""
    written = [name for name in (CORDONED_BY, DRAIN_STARTED, FORCE_WAIT) if name in node.annotations]
    fields: Tree = {"metadata": {"annotations": dict.fromkeys(written)}} if written else {}
    if CORDONED_BY in written and node.spec.get("unschedulable"):
        fields["spec"] = {"unschedulable": None}
    return fields


def started(signal: Signal, now: float) -> dict[str, str]:
    """The annotation of a drain that starts now."""
    return {DRAIN_STARTED: f"{format_time(now)} {_turn_id(signal)}"}


def drain_started(signal: Signal, node: Object) -> float | None:
    """Since when a Node is drained for this turn; None if that is not written there."""
    return _read(signal, node.annotations.get(DRAIN_STARTED, ""))


def force_wait(signal: Signal, node: Object) -> tuple[int, float] | None:
    """How many parts of the wait for force are over, and since when; None if that is not written there."""
    over, _, rest = node.annotations.get(FORCE_WAIT, "").partition(" ")
    since = _read(signal, rest)
    return (int(over), since) if since is not None and over.isdecimal() else None


def waits_for_force(signal: Signal, over: int, since: float) -> dict[str, str]:
    """The annotation of a wait for force."""
    return {FORCE_WAIT: f"{over} {format_time(since)} {_turn_id(signal)}"}


def _turn_id(signal: Signal) -> str:
    return f"{signal.plan_uid}/{signal.created}"


def _read(signal: Signal, text: str) -> float | None:
    """The time of "TIME TURN"; None if it is that of another turn."""
    time, _, turn = text.partition(" ")
    if turn != _turn_id(signal):
        return None
    try:
        return parse_time(time)
    except ValueError:
        return None
