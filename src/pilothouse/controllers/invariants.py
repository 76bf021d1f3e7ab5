"""The invariants of our controllers, whatever goes wrong: the simulator checks them on every write.

    PROMISES["garbage"]           # those of one controller
    every()                       # those of all

Each is about what is in the store. What people do themselves, such as deleting a pod by force, is exempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final

from pilothouse.api.k0s.signals import APPLYING, CORDONING, Signal, read_signal
from pilothouse.api.kind_names import (
    CertificateSigningRequest,
    ConfigMap,
    ControlNode,
    ElasticsearchCluster,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Plan,
    Pod,
    Secret,
    StatefulSet,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import parse_time
from pilothouse.controllers.drains.cordons import CORDONED_BY
from pilothouse.controllers.plans.controller_turns import ANSWER_SECONDS
from pilothouse.controllers.scheduling.resource_requests import added, allocatable, requested
from pilothouse.meta.int_or_percent import scaled
from pilothouse.runtime.invariants import Invariant, ObjectStates, invariant


@invariant(Pod)
def a_pod_that_runs_is_ended_by_its_node(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """Removing it sooner may make two of them run at once."""
    if before is None or (after is not None and after.uid == before.uid):
        return None
    bound = before.spec.get("nodeName") and before.status.get("phase") not in ("Failed", "Succeeded")
    if bound and not before.deleting:
        return f"pod {before.name} is taken away while it runs on {before.spec['nodeName']}"
    return None


@invariant(Pod)
def pods_of_an_ordered_set_are_made_in_order(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """A pod is created when those before it have been ready; lost ones may come back in any order."""
    if before is not None or after is None or (owner := after.controller) is None:
        return None
    owning = facts.of(owner["uid"])
    if owning is None or owning.noun != StatefulSet:
        return None
    if owning.spec.get("podManagementPolicy") == "Parallel":
        return None
    name, _, ordinal = after.name.rpartition("-")
    first = int(owning.at("spec", "ordinals", "start", default=0))
    ready = facts.once_ready(owner["uid"])
    missing = [f"{name}-{n}" for n in range(first, int(ordinal)) if f"{name}-{n}" not in ready]
    if missing:
        return f"pod {after.name} is made, and {', '.join(missing)} never was ready"
    return None


@invariant(PersistentVolumeClaim)
def a_claim_that_nobody_owns_stays(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """Data outlives its pod and set, unless the retention policy says otherwise."""
    if before is None or before.deleting or before.owners or not _goes(after):
        return None
    if _namespace_goes(facts, before):
        return None
    return f"claim {before.name} is deleted, and had no owner"


@invariant(ConfigMap, Secret)
def what_has_a_living_owner_stays(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """Of kinds that no other controller deletes."""
    if before is None or before.deleting or not _goes(after) or _namespace_goes(facts, before):
        return None
    living = [
        owner["name"]
        for owner in before.owners
        if (found := facts.of(owner["uid"])) is not None and not found.deleting
    ]
    return f"{before.name} is deleted, and {', '.join(living)} lives" if living else None


@invariant(Namespace)
def a_namespace_goes_when_it_is_empty(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    if before is None or after is not None:
        return None
    left = facts.within(before.name)
    return f"the namespace {before.name} is gone, and {left[0]!r} is in it" if left else None


@invariant(Pod)
def no_node_has_more_than_it_can_take(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """For pods that the scheduler has placed; a pod that names its node is exempt."""
    if after is None or before is None or before.spec.get("nodeName") or not after.spec.get("nodeName"):
        return None
    node = facts.find(Node, "", after.spec["nodeName"])
    if node is None:
        return None
    there = [pod for pod in facts.all(Pod) if pod.spec.get("nodeName") == node.name and not _over(pod)]
    total = requested(there[0])
    for pod in there[1:]:
        total = added(total, requested(pod))
    room = allocatable(node)
    for name, amount in total.items():
        if name in room and room[name] < amount:
            return f"node {node.name} is given {amount} of {name} and has {room[name]}, with pod {after.name}"
    return None


@invariant(Pod)
def a_pod_is_placed_once(facts: ObjectStates, before: Object | None, after: Object | None) -> str | None:
    if before is None or after is None or before.uid != after.uid:
        return None
    was, is_now = before.spec.get("nodeName"), after.spec.get("nodeName")
    return f"pod {after.name} is moved from {was} to {is_now}" if was and was != is_now else None


@invariant(PersistentVolumeClaim)
def a_volume_has_one_claim(facts: ObjectStates, before: Object | None, after: Object | None) -> str | None:
    if after is None or after.status.get("phase") != "Bound":
        return None
    name = after.spec.get("volumeName")
    bound = [
        one
        for one in facts.all(PersistentVolumeClaim)
        if one.spec.get("volumeName") == name and one.status.get("phase") == "Bound"
    ]
    return (
        f"{' and '.join(one.name for one in bound)} both have the volume {name}" if len(bound) > 1 else None
    )


@invariant(CertificateSigningRequest)
def a_verdict_on_a_request_stays(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """A denied request is never approved."""
    if before is None or after is None or before.uid != after.uid:
        return None
    if before.is_true("Denied") and (after.is_true("Approved") or after.status.get("certificate")):
        return f"{after.name} was denied, and is approved"
    return None


@invariant(CertificateSigningRequest)
def only_nodes_get_certificates_by_themselves(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """Only for requesters, as the server recorded them, with a bootstrap token or a node's certificate."""
    if after is None or not after.is_true("Approved"):
        return None
    groups = after.spec.get("groups") or ()
    if any(each == "system:nodes" or each.startswith("system:bootstrappers") for each in groups):
        return None
    return f"{after.name} of {after.spec.get('username')} is approved"


SEEN_WITHIN: Final = 60.0
"""How stale a controller's view may be, in seconds: a delayed watch plus a slow decision."""


@invariant(ElasticsearchCluster)
def a_cluster_without_a_ready_pod_is_not_available(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """As far as its controller can know: checked when it writes, and after a restart of everything."""
    if after is None or not after.is_true("Available"):
        return None
    since = facts.unready_for(after.uid)
    if since <= SEEN_WITHIN:
        return None
    known = "since everything was started" if since == inf else f"for {since:.0f} s"
    return f"{after.name} says that it is available, and none of its pods has been ready {known}"


@invariant(ControlNode, Node)
def a_turn_is_signalled_once(facts: ObjectStates, before: Object | None, after: Object | None) -> str | None:
    """A machine that has its signal, or has even answered it, does not get the same one again."""
    old, new = _signal(before), _signal(after)
    if after is None or old is None or new is None or new.status is not None or _turn(old) != _turn(new):
        return None
    if old.status is not None or old.created != new.created:
        return f"{after.kind} {after.name} is signalled a second time, at {old.step or 'no step'}"
    return None


@invariant(Plan)
def a_wave_begins_when_those_before_are_done(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """A rollback is of the last wave that was begun."""
    for begun, workers in _begun_workers(before, after):
        # Those that no wave selects come last.
        order = begun.get("wave") or inf
        for other in workers:
            if (other.get("wave") or inf) < order and other["state"] in ("SignalPending", "SignalSent"):
                return f"{begun['name']} begins, and {other['name']} of an earlier wave is {other['state']}"
    return None


@invariant(Plan)
def no_more_workers_are_in_progress_than_may_be_unavailable(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """By ``maxUnavailable``. Those that somebody else has cordoned cost nothing, nor do those that are down
    when they return to their earlier version."""
    limit = after.at("status", "spec", "rollout", "maxUnavailable") if after is not None else None
    if after is None or limit is None or after.status.get("rollingBack"):
        return None
    for begun, workers in _begun_workers(before, after):
        going = [each["name"] for each in workers if each["state"] == "SignalSent"]
        costing = [name for name in going if not _is_cordoned(facts.find(Node, "", name))]
        most = max(1, scaled(limit, len(workers), up=True))
        if begun["name"] in costing and len(costing) > most:
            return f"{begun['name']} begins, {len(costing)} are in progress, and maxUnavailable is {limit}"
    return None


@invariant(ControlNode)
def controllers_are_updated_one_by_one(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """None is signalled while another has not ended its turn in the same plan.

    A signal of an earlier run that no agent has answered for a while is no turn: the Plan does not name it.
    """
    new = _signal(after)
    if after is None or new is None or new.status is not None or _turn(_signal(before)) == _turn(new):
        return None
    for other in facts.all(ControlNode):
        signal = _signal(other)
        if other.name == after.name or not signal or signal.plan_uid != new.plan_uid or signal.ended:
            continue
        waited = parse_time(new.created) - parse_time(signal.created)
        if signal.status or signal.generation == new.generation or waited < ANSWER_SECONDS:
            return f"{after.name} is signalled, and {other.name} is at {signal.step or 'no step'}"
    return None


@invariant(Node)
def workers_follow_all_controllers(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """No worker is signalled before every controller of its plan runs the version."""
    new = _signal(after)
    update = new.command.k0supdate if new is not None else None
    if after is None or new is None or update is None or new.status is not None or new.rollback:
        return None
    plan = facts.of(new.plan_uid)
    if plan is None or _turn(_signal(before)) == _turn(new):
        return None
    commands = plan.status.get("commands") or ()
    listed = commands[new.command.id].get("k0supdate", {}) if new.command.id < len(commands) else {}
    for target in listed.get("controllers", ()):
        controller = facts.find(ControlNode, "", target["name"])
        version = controller.status.get("k0sVersion") if controller is not None else None
        if version != update.version:
            return f"{after.name} is signalled, and {target['name']} runs {version}"
    return None


@invariant(Node)
def a_cordon_of_somebody_else_stays(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """A drain ends only the cordon that a drain began."""
    if before is None or after is None or not before.spec.get("unschedulable"):
        return None
    if after.spec.get("unschedulable") or CORDONED_BY in before.annotations:
        return None
    return f"node {after.name} is uncordoned, and somebody else had cordoned it"


@invariant(Node)
def a_machine_is_updated_while_it_is_cordoned(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    if before is None or after is None or after.spec.get("unschedulable"):
        return None
    if _step(before) == CORDONING and _step(after) == APPLYING:
        return f"node {after.name} is to be updated, and is not cordoned"
    return None


PROMISES: Final[Mapping[str, tuple[Invariant, ...]]] = {
    "stateful-sets": (
        a_pod_that_runs_is_ended_by_its_node,
        pods_of_an_ordered_set_are_made_in_order,
        a_claim_that_nobody_owns_stays,
    ),
    "elasticsearch-clusters": (a_cluster_without_a_ready_pod_is_not_available,),
    "drains": (
        a_cordon_of_somebody_else_stays,
        a_machine_is_updated_while_it_is_cordoned,
    ),
    "garbage": (what_has_a_living_owner_stays,),
    "namespaces": (a_namespace_goes_when_it_is_empty,),
    "scheduling": (no_node_has_more_than_it_can_take, a_pod_is_placed_once),
    "claims": (a_volume_has_one_claim,),
    "plans": (
        a_turn_is_signalled_once,
        a_wave_begins_when_those_before_are_done,
        no_more_workers_are_in_progress_than_may_be_unavailable,
        controllers_are_updated_one_by_one,
        workers_follow_all_controllers,
    ),
    "node-requests": (a_verdict_on_a_request_stays, only_nodes_get_certificates_by_themselves),
}
"""By the name of the controller."""


def every() -> tuple[Invariant, ...]:
    return tuple(each for promises in PROMISES.values() for each in promises)


def _begun_workers(before: Object | None, after: Object | None) -> Iterator[tuple[Tree, list[Tree]]]:
    """The workers of a run of a plan that this write begins, each with all workers of its command."""
    if after is None:
        return
    commands = after.status.get("commands") or ()
    earlier: Sequence[Tree] = ()
    if before is not None and before.uid == after.uid:
        earlier = before.status.get("commands") or ()
    for index, command in enumerate(commands):
        workers = (command.get("k0supdate") or {}).get("workers") or []
        known = earlier[index] if index < len(earlier) else {}
        sent = {
            each["name"]
            for each in (known.get("k0supdate") or {}).get("workers") or ()
            if each["state"] == "SignalSent"
        }
        for worker in workers:
            if worker["state"] == "SignalSent" and worker["name"] not in sent:
                yield worker, workers


def _is_cordoned(node: Object | None) -> bool:
    """By somebody else than a plan."""
    return node is not None and bool(node.spec.get("unschedulable")) and CORDONED_BY not in node.annotations


def _signal(machine: Object | None) -> Signal | None:
    return read_signal(machine.annotations) if machine is not None else None


def _turn(signal: Signal | None) -> tuple[object, ...]:
    """What tells one turn of a machine from another."""
    if signal is None:
        return ()
    command = signal.command
    return signal.plan_uid, signal.generation, command.id, command.k0supdate is None, signal.rollback


def _step(node: Object) -> str:
    signal = _signal(node)
    return signal.step if signal is not None else ""


def _over(pod: Object) -> bool:
    return pod.status.get("phase") in ("Failed", "Succeeded")


def _goes(after: Object | None) -> bool:
    return after is None or after.deleting


def _namespace_goes(facts: ObjectStates, one: Object) -> bool:
    namespace = facts.find(Namespace, "", one.namespace)
    return namespace is None or namespace.deleting
