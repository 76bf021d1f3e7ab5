"""The drain controller: cordons, drains and uncordons machines as their signals ask.

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
  keep are deleted after ``forceAfter``, and the machine has failed after ``timeout``. Both count from the
  annotation ``drain-started`` of the Node, which the leader writes by its own clock: the time of the step in
  the signal is by the clock of the machine. ``force_waits`` says why a jump of the clock forces nothing.
* A Node gets events when pods have to leave it, and when it is uncordoned without having completed its turn.
  The rest of a turn is in the status of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.k0s.signals import (
    APPLYING,
    COMPLETED,
    CORDONING,
    FAILED,
    UNCORDONING,
    SignalError,
    read_signal,
)
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import ControlNode, Node, Plan, Pod, PodDisruptionBudget
from pilothouse.api.objects import Object
from pilothouse.base.duration import parse_duration
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.drains.cordons import (
    CORDONED_BY,
    DRAIN_STARTED,
    cordon,
    drain_started,
    started,
    uncordon,
)
from pilothouse.controllers.drains.force_waits import ForceWait
from pilothouse.controllers.drains.machine_turns import (
    FAILED_STATES,
    MachineTurn,
    explained,
    find_turn,
    is_host,
    is_in_progress,
    moved,
    node_of,
)
from pilothouse.controllers.drains.pod_evictions import evictions, leaving_pods, listed
from pilothouse.runtime.controller import Names, ReconcileKey, controller
from pilothouse.runtime.intents import Intent, ObjectTarget, PatchObject, Wait
from pilothouse.runtime.snapshot import Snapshot

AT_ONCE: Final = 32
"""Machines that are looked at at the same time. Many take the same step within a second, and writes that the
server commits together cost it half as much."""
RECHECK: Final = 5.0
"""Seconds until evictions that budgets forbid are tried again."""


def machine_of(control_node: Object, world: Snapshot) -> Names:
    """The Node to drain for a controller; if there is none, the ControlNode itself."""
    node = node_of(control_node, world)
    yield ReconcileKey(ControlNode, "", control_node.name) if node is None else ("", node.name)


def controllers_of(node: Object, world: Snapshot) -> Names:
    """The ControlNodes of a Node: without it they have nothing to drain."""
    for control_node in world.all(ControlNode):
        if is_host(control_node, node):
            yield ReconcileKey(ControlNode, "", control_node.name)


def node_in_progress(pod: Object, world: Snapshot) -> Names:
    """The Node of a pod, if it is being drained."""
    name = pod.spec.get("nodeName")
    node = world.find(Node, "", name) if name else None
    if node is not None and is_in_progress(node):
        yield "", node.name


def machines_of_plan(plan: Object, world: Snapshot) -> Names:
    """The machines in progress."""
    if plan.name != RUNNING_PLAN:
        return
    for node in world.all(Node):
        if is_in_progress(node):
            yield "", node.name
    for control_node in world.all(ControlNode):
        if is_in_progress(control_node):
            yield from machine_of(control_node, world)


def is_relevant(before: Object, after: Object) -> bool:
    """Not the heartbeats of Nodes that are not in progress, nor each step of a plan or a machine."""
    if after.noun == Plan:
        return _run(before) != _run(after)
    if after.noun != Node:
        return True
    if (before.metadata.labels, before.deleting) != (after.metadata.labels, after.deleting):
        return True
    is_same = before.metadata.annotations == after.metadata.annotations
    return not (is_same and _scheduling(before) == _scheduling(after)) and _asks_for_something(after)


def _asks_for_something(node: Object) -> bool:
    """Whether a Node is to be drained or uncordoned now. Other steps concern only the machine; what a
    plan has done to a Node is undone when the plan is deleted."""
    try:
        signal = read_signal(node.annotations)
    except SignalError:
        signal = None
    if signal is not None and not signal.ended:
        return signal.step in (CORDONING, UNCORDONING)
    return CORDONED_BY in node.annotations or DRAIN_STARTED in node.annotations


@controller(
    Node,
    also={Node: controllers_of, ControlNode: machine_of, Pod: node_in_progress, Plan: machines_of_plan},
    reads=PodDisruptionBudget,
    predicate=is_relevant,
    workers=AT_ONCE,
)
def drains(machine: Object, world: Snapshot) -> Iterator[Intent]:
    """Cordon, drain and uncordon a machine as its signal asks. The machine is a Node, or a ControlNode that
    has none."""
    if machine.noun == ControlNode:
        if node_of(machine, world) is None and (turn := find_turn(machine, None, world)) is not None:
            yield from _continue(turn, world)
        return
    turns = [find_turn(machine, machine, world)]
    for control_node in world.all(ControlNode):
        if is_host(control_node, machine) and node_of(control_node, world) == machine:
            turns.append(find_turn(control_node, machine, world))
    unfinished = [turn for turn in turns if turn is not None]
    for turn in unfinished:
        yield from _continue(turn, world)
    if not unfinished:
        yield from _release(machine, "the update of the machine is over")


def _continue(turn: MachineTurn, world: Snapshot) -> Iterator[Intent]:
    step = turn.signal.step
    if turn.is_early:
        return
    if step == UNCORDONING:
        yield from _complete(turn, world)
    elif turn.plan is None:
        if step == CORDONING:
            yield moved(turn, FAILED, turn.over, world.now)
        if turn.node is not None:
            yield from _release(turn.node, turn.over, turn.unless)
    elif step == CORDONING and turn.node is not None:
        yield from _drain(turn, turn.node, turn.plan, world)
    elif step == CORDONING:
        yield moved(turn, APPLYING, "", world.now)


def _drain(turn: MachineTurn, node: Object, plan: Object, world: Snapshot) -> Iterator[Intent]:
    """Cordon a Node and evict its pods; when they are gone, let the update go on."""
    options: Mapping[str, Any] = plan.at("status", "spec", "rollout", "drain", default={})
    cordoned = bool(node.spec.get("unschedulable"))
    since = drain_started(turn.signal, node)
    because = f"node {node.name} is updated {turn.target}"
    evicts = options.get("strategy") != "none"
    pods = leaving_pods(node, world) if evicts else []
    if not cordoned and not pods and turn.holder.noun == Node:
        yield _cordon_and_go_on(turn, node, f"{because}: no pod has to leave it", world.now)
        return
    if not cordoned:
        fields = cordon(turn.signal, since if since is not None else world.now)
        yield PatchObject(node, fields, exact=True, because=because, event="Cordon" if pods else "")
    if not evicts:
        yield moved(turn, APPLYING, "", world.now)
        return
    if not pods:
        if cordoned:
            yield moved(turn, APPLYING, "", world.now)
        # Otherwise the cordon is a write of its own, and a pod may have been placed here before it.
        return
    if since is None:
        since = world.now
        if cordoned:
            # By another hand, or for an earlier turn.
            fields = {"metadata": {"annotations": started(turn.signal, since)}}
            yield PatchObject(node, fields, exact=True, because=because)
    timeout, force_after = _seconds(options, "timeout"), _seconds(options, "forceAfter")
    wait = ForceWait.read(turn.signal, node, since, force_after) if force_after is not None else None
    if wait is not None and (following := wait.following(world.now)) is not None:
        wait = following
        fields = {"metadata": {"annotations": wait.annotations(turn.signal)}}
        yield PatchObject(node, fields, exact=True, because=f"{because}; its pods are kept")
    by_force = wait is not None and wait.is_over(world.now)
    intents, kept = evictions(turn, node, pods, options, by_force, world)
    if timeout is not None and world.now >= since + timeout:
        reason = f"the drain took longer than {options['timeout']}: {listed(kept)}"
        yield moved(turn, FAILED, reason, world.now)
        return
    yield from intents
    reason = f"draining node {node.name}: {listed(kept)}"
    yield from explained(turn, reason)
    ends = [since + timeout] if timeout is not None else []
    ends += [wait.due] if wait is not None else []
    seconds = min((end - world.now for end in ends if end > world.now), default=RECHECK)
    seconds = min(seconds, RECHECK)
    remedy = "" if not any(kept.values()) else "see the pods and budgets that it names, or delete the pods"
    yield Wait("Draining", because=reason, remedy=remedy, seconds=seconds)


def _cordon_and_go_on(turn: MachineTurn, node: Object, because: str, now: float) -> PatchObject:
    """Cordon a worker that has nothing to evict, and let its update go on, in one write.

    A pod that is being placed there at this moment stays, as one does whose binding is on its way when a Node
    is cordoned first.
    """
    fields = cordon(turn.signal, now)
    moved = turn.signal.advanced(APPLYING, format_time(now)).annotations()
    annotations = {**fields["metadata"]["annotations"], **moved}
    fields = {**fields, "metadata": {"annotations": annotations}}
    return PatchObject(node, fields, exact=True, unless=turn.unless, because=because)


def _complete(turn: MachineTurn, world: Snapshot) -> Iterator[Intent]:
    """Uncordon a Node that is Ready, and end the turn."""
    node = turn.node
    if node is None:
        yield moved(turn, COMPLETED, "", world.now)
        return
    if not node.is_true("Ready"):
        reason = f"waiting until node {node.name} is ready{_readiness(node)}"
        yield from explained(turn, reason)
        yield Wait("NodeNotReady", because=reason, seconds=RECHECK)
        return
    because = f"node {node.name} was updated {turn.target}"
    done = turn.signal.advanced(COMPLETED, format_time(world.now)).annotations()
    fields = uncordon(node)
    if turn.holder.noun == Node:
        annotations = {**fields.get("metadata", {}).get("annotations", {}), **done}
        fields = {**fields, "metadata": {"annotations": annotations}}
        yield PatchObject(node, fields, exact=True, because=because)
        return
    if fields:
        yield PatchObject(node, fields, exact=True, because=because)
    yield PatchObject(turn.holder, {"metadata": {"annotations": done}}, exact=True, because=because)


def _release(node: Object, because: str, unless: tuple[ObjectTarget, ...] = ()) -> Iterator[Intent]:
    """Uncordon a Node that was cordoned here, when it is Ready."""
    fields = uncordon(node)
    if CORDONED_BY not in node.annotations:
        if fields:
            yield PatchObject(node, fields, exact=True, unless=unless, because=because)
    elif node.is_true("Ready"):
        yield PatchObject(node, fields, exact=True, unless=unless, because=because, event="Uncordon")
    else:
        waiting = f"node {node.name} stays cordoned until it is ready{_readiness(node)}"
        yield Wait("NodeNotReady", because=waiting, seconds=RECHECK)


def _readiness(node: Object) -> str:
    message = (node.condition("Ready") or {}).get("message")
    return f": {message}" if message else ""


def _seconds(options: Mapping[str, Any], name: str) -> float | None:
    text = options.get(name)
    try:
        return parse_duration(text) if text else None
    except ValueError:
        # Refused by validation, which stored objects may not have passed.
        return None


def _run(plan: Object) -> tuple[Any, ...]:
    """What machines have to know of a run: which one it is, whether it has ended, and the targets that have
    failed."""
    status = plan.status
    failed = tuple(
        target.get("name")
        for command in status.get("commands") or ()
        for targets in (command.get("k0supdate") or {}).values()
        for target in targets
        if target.get("state") in FAILED_STATES
    )
    has_ended = status.get("completedTime") is not None
    return plan.uid, plan.deleting, status.get("runGeneration"), has_ended, failed


def _scheduling(node: Object) -> tuple[Any, ...]:
    return node.spec.get("unschedulable"), node.is_true("Ready")
