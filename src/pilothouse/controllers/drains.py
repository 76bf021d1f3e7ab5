"""Drains: pods leave a machine before its update, and the machine takes pods again when it is done.

When the signal of a machine (``api.k0s.signals``) has come to ``Cordoning``, its Node is cordoned and its
pods are evicted within their disruption budgets (``controllers.disruptions``). Then the signal goes on to
``ApplyingUpdate``. When it has come to ``UnCordoning`` and the Node is Ready, the Node is uncordoned and the
signal is ``Completed``. The signal of a worker is on its Node, that of a controller on its ControlNode. If a
controller is a worker too, its Node is drained; a pure controller has nothing to drain and passes.

* A Node that was cordoned before stays cordoned. What is cordoned here has the annotation ``cordoned-by``,
  written together with ``spec.unschedulable``, and is uncordoned once the turn is over and the Node is Ready:
  also after a failure, and if the plan is deleted, replaced or counts the machine as failed.
* Pods of DaemonSets and static pods stay. All others go, also those that have ended or have no controller.
* What keeps a pod is in the signal's ``reason``. By ``rollout.drain`` of the plan, pods that their budgets
  keep are deleted after ``forceAfter``, and the machine has failed after ``timeout``.
* Both count from the annotation ``drain-started`` of the Node, which the leader writes by its own clock. The
  time of the step in the signal is by the clock of the machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.k0s.signals import (
    APPLYING,
    COMPLETED,
    CORDONING,
    FAILED,
    UNCORDONING,
    Signal,
    SignalError,
    read_signal,
)
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import ControlNode, Node, Plan, Pod, PodDisruptionBudget
from pilothouse.api.objects import Object, Tree
from pilothouse.base.duration import parse_duration
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.controllers.disruptions import DisruptionAccount, delete_by_force
from pilothouse.runtime.controller import Names, ReconcileKey, controller
from pilothouse.runtime.intents import Intent, ObjectTarget, PatchObject, RecordEvent, Wait
from pilothouse.runtime.snapshot import Snapshot

CORDONED_BY: Final = "autopilot.k0sproject.io/cordoned-by"
"""On a Node that a plan has cordoned: the uid of the plan."""
DRAIN_STARTED: Final = "autopilot.k0sproject.io/drain-started"
"""On a Node that is drained: since when, by the clock of the leader, and for which turn."""
MODE: Final = "autopilot.k0sproject.io/mode"
"""On a ControlNode: controller, or controller+worker."""
PURE: Final = "controller"
HOSTNAME: Final = "kubernetes.io/hostname"
BY: Final = "drains"
RECHECK: Final = 5.0
"""Seconds until evictions that budgets forbid are tried again."""
_MIRROR: Final = "kubernetes.io/config.mirror"
_STAYING_OWNERS: Final = ("DaemonSet", "Node")
_FAILED_STATES: Final = ("SignalApplyFailed", "SignalMissingNode", "SignalMissingPlatform")
_MOST_NAMED: Final = 3


class _Turn(msgspec.Struct, frozen=True):
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


def machine_of(control_node: Object, world: Snapshot) -> Names:
    """The Node to drain for a controller; if there is none, the ControlNode itself."""
    node = _node_of(control_node, world)
    yield ReconcileKey(ControlNode, "", control_node.name) if node is None else ("", node.name)


def controllers_of(node: Object, world: Snapshot) -> Names:
    """The ControlNodes of a Node: without it they have nothing to drain."""
    for control_node in world.all(ControlNode):
        if _is_host(control_node, node):
            yield ReconcileKey(ControlNode, "", control_node.name)


def node_in_progress(pod: Object, world: Snapshot) -> Names:
    """The Node of a pod, if it is being drained."""
    name = pod.spec.get("nodeName")
    node = world.find(Node, "", name) if name else None
    if node is not None and _is_in_progress(node):
        yield "", node.name


def machines_of_plan(plan: Object, world: Snapshot) -> Names:
    """The machines in progress."""
    if plan.name != RUNNING_PLAN:
        return
    for node in world.all(Node):
        if _is_in_progress(node):
            yield "", node.name
    for control_node in world.all(ControlNode):
        if _is_in_progress(control_node):
            yield from machine_of(control_node, world)


def is_relevant(before: Object, after: Object) -> bool:
    """Not the heartbeats of Nodes that are not in progress, nor each step of a plan."""
    if after.noun == Plan:
        return _run(before) != _run(after)
    if after.noun != Node:
        return True
    marks = (before.metadata.annotations, before.metadata.labels, before.deleting)
    if marks != (after.metadata.annotations, after.metadata.labels, after.deleting):
        return True
    return _scheduling(before) != _scheduling(after) and _is_in_progress(after)


@controller(
    Node,
    also={Node: controllers_of, ControlNode: machine_of, Pod: node_in_progress, Plan: machines_of_plan},
    reads=PodDisruptionBudget,
    predicate=is_relevant,
)
def drains(machine: Object, world: Snapshot) -> Iterator[Intent]:
    """Cordon, drain and uncordon a machine as its signal asks. The machine is a Node, or a ControlNode that
    has none."""
    if machine.noun == ControlNode:
        if _node_of(machine, world) is None and (turn := _turn(machine, None, world)) is not None:
            yield from _continue(turn, world)
        return
    turns = [_turn(machine, machine, world)]
    for control_node in world.all(ControlNode):
        if _is_host(control_node, machine) and _node_of(control_node, world) == machine:
            turns.append(_turn(control_node, machine, world))
    unfinished = [turn for turn in turns if turn is not None]
    for turn in unfinished:
        yield from _continue(turn, world)
    if not unfinished:
        yield from _release(machine, "the update of the machine is over")


def _continue(turn: _Turn, world: Snapshot) -> Iterator[Intent]:
    step = turn.signal.step
    if turn.is_early:
        return
    if step == UNCORDONING:
        yield from _complete(turn, world)
    elif turn.plan is None:
        if step == CORDONING:
            yield _moved(turn, FAILED, turn.over, world.now)
        if turn.node is not None:
            yield from _release(turn.node, turn.over, turn.unless)
    elif step == CORDONING and turn.node is not None:
        yield from _drain(turn, turn.node, turn.plan, world)
    elif step == CORDONING:
        yield _moved(turn, APPLYING, "", world.now)


def _drain(turn: _Turn, node: Object, plan: Object, world: Snapshot) -> Iterator[Intent]:
    """Cordon a Node and evict its pods; when they are gone, let the update go on."""
    options: Mapping[str, Any] = plan.at("status", "spec", "rollout", "drain", default={})
    cordoned = bool(node.spec.get("unschedulable"))
    since = _drain_started(turn.signal, node)
    because = f"node {node.name} is updated {turn.target}"
    if not cordoned:
        fields = _cordon(turn.signal, since if since is not None else world.now)
        yield PatchObject(node, fields, exact=True, because=because, event="Cordon")
    if options.get("strategy") == "none":
        yield _moved(turn, APPLYING, "", world.now)
        return
    pods = [pod for pod in world.where(Pod, "spec.nodeName", node.name) if not _stays(pod)]
    if not pods:
        if cordoned:
            yield _moved(turn, APPLYING, "", world.now)
        # Otherwise a pod may have been placed here before the Node was cordoned: look once more.
        return
    if since is None:
        since = world.now
        if cordoned:
            # By another hand, or for an earlier turn.
            fields = {"metadata": {"annotations": _started(turn.signal, since)}}
            yield PatchObject(node, fields, exact=True, because=because)
    timeout, force_after = _seconds(options, "timeout"), _seconds(options, "forceAfter")
    by_force = force_after is not None and world.now >= since + force_after
    intents, kept = _evictions(turn, node, pods, options, by_force, world)
    if timeout is not None and world.now >= since + timeout:
        reason = f"the drain took longer than {options['timeout']}: {_listed(kept)}"
        yield _moved(turn, FAILED, reason, world.now)
        return
    yield from intents
    reason = f"draining node {node.name}: {_listed(kept)}"
    yield from _explained(turn, reason)
    ends = [since + after - world.now for after in (timeout, force_after) if after is not None]
    seconds = min((left for left in (*ends, RECHECK) if left > 0), default=RECHECK)
    remedy = "" if not any(kept.values()) else "see the pods and budgets that it names, or delete the pods"
    yield Wait("Draining", because=reason, remedy=remedy, seconds=seconds)


def _evictions(
    turn: _Turn,
    node: Object,
    pods: Sequence[Object],
    options: Mapping[str, Any],
    by_force: bool,
    world: Snapshot,
) -> tuple[list[Intent], dict[str, str]]:
    """Evictions of the pods that may go, and each pod that is left, with what keeps it."""
    account = DisruptionAccount(world)
    grace = options.get("gracePeriodSeconds")
    because = f"node {node.name} is updated {turn.target}"
    intents: list[Intent] = []
    kept: dict[str, str] = {}
    for pod in pods:
        name = f"{pod.namespace}/{pod.name}"
        if pod.deleting:
            kept[name] = ""
        elif not (why := account.why_kept(pod)):
            kept[name] = ""
            intents.append(account.evict(pod, by=BY, because=because, grace=grace))
            intents.append(RecordEvent(pod, because=because, event="Evicted"))
        elif by_force:
            kept[name] = ""
            forced = f"{because}; {why}, for longer than {options['forceAfter']}"
            intents += delete_by_force(pod, by=BY, because=forced, now=world.now, grace=grace)
            intents.append(RecordEvent(pod, because=forced, event="EvictedByForce", warning=True))
        else:
            kept[name] = why
    return intents, kept


def _complete(turn: _Turn, world: Snapshot) -> Iterator[Intent]:
    """Uncordon a Node that is Ready, and end the turn."""
    node = turn.node
    if node is None:
        yield _moved(turn, COMPLETED, "", world.now)
        return
    if not node.is_true("Ready"):
        reason = f"waiting until node {node.name} is ready{_readiness(node)}"
        yield from _explained(turn, reason)
        yield Wait("NodeNotReady", because=reason, seconds=RECHECK)
        return
    because = f"node {node.name} was updated {turn.target}"
    done = turn.signal.advanced(COMPLETED, format_time(world.now)).annotations()
    fields = _uncordon(node)
    if turn.holder.noun == Node:
        annotations = {**fields.get("metadata", {}).get("annotations", {}), **done}
        fields = {**fields, "metadata": {"annotations": annotations}}
        yield PatchObject(node, fields, exact=True, because=because, event="Uncordon")
        return
    if fields:
        event = "Uncordon" if "spec" in fields else ""
        yield PatchObject(node, fields, exact=True, because=because, event=event)
    yield PatchObject(turn.holder, {"metadata": {"annotations": done}}, exact=True, because=because)


def _release(node: Object, because: str, unless: tuple[ObjectTarget, ...] = ()) -> Iterator[Intent]:
    """Uncordon a Node that was cordoned here, when it is Ready."""
    fields = _uncordon(node)
    if CORDONED_BY not in node.annotations:
        if fields:
            yield PatchObject(node, fields, exact=True, unless=unless, because=because)
    elif node.is_true("Ready"):
        yield PatchObject(node, fields, exact=True, unless=unless, because=because, event="Uncordon")
    else:
        waiting = f"node {node.name} stays cordoned until it is ready{_readiness(node)}"
        yield Wait("NodeNotReady", because=waiting, seconds=RECHECK)


def _turn(holder: Object, node: Object | None, world: Snapshot) -> _Turn | None:
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
        return _Turn(holder, signal, node, None, f"plan {signal.plan_id} was deleted", unless=unless)
    if plan.deleting:
        return _Turn(holder, signal, node, None, f"plan {signal.plan_id} is being deleted")
    observed = plan.status.get("observedGeneration") or 0
    if observed > signal.generation:
        return _Turn(holder, signal, node, None, f"plan {signal.plan_id} has another run")
    if observed < signal.generation:
        # The signal has arrived here before the plan's status, which triggers the next decision.
        return _Turn(holder, signal, node, plan, is_early=True)
    target = {} if signal.rollback else _target(plan, signal.command.id, holder)
    if target.get("state") in _FAILED_STATES:
        why = target.get("description") or target["state"]
        return _Turn(holder, signal, node, None, f"the plan counts the machine as failed: {why}")
    return _Turn(holder, signal, node, plan)


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


def _node_of(control_node: Object, world: Snapshot) -> Object | None:
    """The Node of a controller that is a worker too."""
    if control_node.annotations.get(MODE) == PURE:
        return None
    hostname = control_node.labels.get(HOSTNAME) or control_node.name
    named = world.find(Node, "", hostname)
    if named is not None:
        return named
    return next((node for node in world.all(Node) if node.labels.get(HOSTNAME) == hostname), None)


def _is_host(control_node: Object, node: Object) -> bool:
    hostname = control_node.labels.get(HOSTNAME) or control_node.name
    return hostname in (node.name, node.labels.get(HOSTNAME))


def _stays(pod: Object) -> bool:
    """Whether a pod stays on a Node that is drained: it belongs to the machine."""
    owner = pod.controller or {}
    return _MIRROR in pod.annotations or owner.get("kind") in _STAYING_OWNERS


def _moved(turn: _Turn, step: str, reason: str, now: float) -> PatchObject:
    signal = turn.signal.advanced(step, format_time(now), reason)
    because = reason or f"{turn.holder.name} goes on to {step}"
    fields = {"metadata": {"annotations": signal.annotations()}}
    return PatchObject(turn.holder, fields, exact=True, unless=turn.unless, because=because)


def _explained(turn: _Turn, reason: str) -> Iterator[Intent]:
    """Write what is waited for into the signal, if it is not there yet. The time of the step stays."""
    status = turn.signal.status
    if status is None:
        return
    explained = turn.signal.advanced(status.status, status.timestamp, reason)
    if explained.status is not None and explained.status.reason != status.reason:
        fields = {"metadata": {"annotations": explained.annotations()}}
        yield PatchObject(turn.holder, fields, exact=True, because=reason)


def _cordon(signal: Signal, now: float) -> Tree:
    annotations = {CORDONED_BY: signal.plan_uid, **_started(signal, now)}
    return {"spec": {"unschedulable": True}, "metadata": {"annotations": annotations}}


def _uncordon(node: Object) -> Tree:
    """Take back what was done to a Node here; empty if nothing was."""
    written = [name for name in (CORDONED_BY, DRAIN_STARTED) if name in node.annotations]
    fields: Tree = {"metadata": {"annotations": dict.fromkeys(written)}} if written else {}
    if CORDONED_BY in written and node.spec.get("unschedulable"):
        fields["spec"] = {"unschedulable": None}
    return fields


def _started(signal: Signal, now: float) -> dict[str, str]:
    """The annotation of a drain that starts now."""
    return {DRAIN_STARTED: f"{format_time(now)} {_turn_id(signal)}"}


def _drain_started(signal: Signal, node: Object) -> float | None:
    """Since when a Node is drained for this turn; None if that is not written there."""
    time, _, turn = node.annotations.get(DRAIN_STARTED, "").partition(" ")
    if turn != _turn_id(signal):
        return None
    try:
        return parse_time(time)
    except ValueError:
        return None


def _turn_id(signal: Signal) -> str:
    return f"{signal.plan_uid}/{signal.created}"


def _readiness(node: Object) -> str:
    message = (node.condition("Ready") or {}).get("message")
    return f": {message}" if message else ""


def _listed(kept: Mapping[str, str]) -> str:
    """The pods that are left, those that are kept first: "pod a/b: disruption budget …; 2 pods terminate"."""
    blocked = [f"pod {name}: {why}" for name, why in kept.items() if why]
    leaving = sum(not why for why in kept.values())
    named = blocked[:_MOST_NAMED]
    if len(blocked) > _MOST_NAMED:
        named.append(f"{len(blocked) - _MOST_NAMED} more pods are kept")
    if leaving:
        named.append(f"{leaving} {'pod terminates' if leaving == 1 else 'pods terminate'}")
    return "; ".join(named)


def _seconds(options: Mapping[str, Any], name: str) -> float | None:
    text = options.get(name)
    try:
        return parse_duration(text) if text else None
    except ValueError:
        # Refused by validation, which stored objects may not have passed.
        return None


def _is_in_progress(machine: Object) -> bool:
    """Whether there is something to do for a machine, or to take back. A signal stays after its end."""
    if CORDONED_BY in machine.annotations or DRAIN_STARTED in machine.annotations:
        return True
    try:
        signal = read_signal(machine.annotations)
    except SignalError:
        return False
    return signal is not None and not signal.ended


def _run(plan: Object) -> tuple[Any, ...]:
    """What machines have to know of a run: which one it is, whether it has ended, and the targets that have
    failed."""
    status = plan.status
    failed = tuple(
        target.get("name")
        for command in status.get("commands") or ()
        for targets in (command.get("k0supdate") or {}).values()
        for target in targets
        if target.get("state") in _FAILED_STATES
    )
    has_ended = status.get("completedTime") is not None
    return plan.uid, plan.deleting, status.get("observedGeneration"), has_ended, failed


def _scheduling(node: Object) -> tuple[Any, ...]:
    return node.spec.get("unschedulable"), node.is_true("Ready")
