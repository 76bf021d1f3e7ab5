"""A node that is not heard of any more is not counted on, and its pods go elsewhere.

A node renews its lease in ``kube-node-lease`` every few seconds. What counts is when a new version of the lease *arrives*
here, never the time that is written in it: a node whose clock is wrong is as alive as any other. A manager that has just
started therefore waits the grace period out once more before it judges.

* Not heard of for the grace period: the conditions turn ``Unknown``, and the taint ``unreachable`` keeps new pods away.
* The node says itself that it is not ready: the taint ``not-ready``.
* While a node has either, its pods are not ready, so that services pass them by, and each is deleted when its toleration
  of the taint ends: after 300 seconds if it says nothing.
* Heard of again and ready: the taints go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.nouns import Lease, Node, Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.api.tolerating import fits
from pilothouse.base.times import format_time, parse_time
from pilothouse.meta.conditions import find_condition, with_condition
from pilothouse.runtime.declaring import Names, controller
from pilothouse.runtime.intents import After, Delete, Intent, Patch, SetStatus
from pilothouse.runtime.world import World

LEASES: Final = "kube-node-lease"
GRACE: Final = 50.0
TOLERATED: Final = 300.0
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
_OURS: Final = frozenset({UNREACHABLE, NOT_READY})
_SILENT: Final = "NodeStatusUnknown"


def its_node(pod: Object, world: World) -> Names:
    """The node that a pod is bound to."""
    if name := pod.spec.get("nodeName"):
        yield "", name


def of_that_name(lease: Object, world: World) -> Names:
    """The node whose lease it is."""
    if lease.namespace == LEASES:
        yield "", lease.name


@controller(Node, also={Lease: of_that_name, Pod: its_node}, standalone=True)
def node_lifecycle(node: Object, world: World) -> Iterator[Intent]:
    """A node that is not heard of is tainted, and its pods go elsewhere."""
    lease = world.find(Lease, LEASES, node.name)
    # A node that has not taken its lease yet counts from its own last word.
    silent = world.now - (lease or node).arrived
    lost = silent >= GRACE
    ready = find_condition(node.status.get("conditions"), "Ready")
    if lost:
        status = _silenced(node, world.now)
        yield SetStatus(node, status, because=f"nothing was heard of the node for {GRACE:g} seconds")
        wanted = UNREACHABLE
    else:
        yield After(GRACE - silent, because="the next sign of life is awaited")
        if ready is None or ready.get("status") == "Unknown":
            wanted = UNREACHABLE if ready is not None else NOT_READY
        else:
            wanted = "" if ready.get("status") == "True" else NOT_READY
    taints = _tainted(node, wanted, world.now)
    if taints != list(node.spec.get("taints") or ()):
        yield Patch(
            node,
            {"spec": {"taints": taints or None}},
            exact=True,
            because=f"the node is {'unreachable' if wanted == UNREACHABLE else 'not ready'}"
            if wanted
            else "the node is ready",
        )
    if wanted:
        for pod in world.where(Pod, "spec.nodeName", node.name):
            yield from _moved(pod, taints, world.now)


def _silenced(node: Object, now: float) -> Tree:
    """The node's status when nobody knows how it is."""
    conditions = list(node.status.get("conditions") or ())
    known = {condition.get("type"): condition for condition in conditions}
    for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        if known.get(kind, {}).get("status") != "Unknown":
            conditions = with_condition(
                conditions,
                {
                    "type": kind,
                    "status": "Unknown",
                    "reason": _SILENT,
                    "message": "The node stopped reporting how it is.",
                },
                now=format_time(now),
            )
    return {**node.status, "conditions": conditions}


def _tainted(node: Object, wanted: str, now: float) -> list[Tree]:
    """The node's taints, with those of ours that it should have; one that is there keeps its time."""
    before = [dict(taint) for taint in node.spec.get("taints") or ()]
    kept = [taint for taint in before if taint.get("key") not in _OURS or taint.get("key") == wanted]
    if not wanted:
        return kept
    for effect in ("NoSchedule", "NoExecute"):
        if not any(taint.get("key") == wanted and taint.get("effect") == effect for taint in kept):
            kept.append({"key": wanted, "effect": effect, "timeAdded": format_time(now)})
    return kept


def _moved(pod: Object, taints: list[Tree], now: float) -> Iterator[Intent]:
    """A pod of a node that can't be counted on: not ready, and gone when its tolerations have run out."""
    if pod.is_true("Ready"):
        conditions = with_condition(
            pod.status.get("conditions"),
            {
                "type": "Ready",
                "status": "False",
                "reason": "NodeNotReady",
                "message": "Its node is not ready.",
            },
            now=format_time(now),
        )
        yield SetStatus(pod, {**pod.status, "conditions": conditions}, because="its node is not ready")
    if pod.deleting:
        return
    since, seconds = _tolerated(pod, taints)
    if seconds is None:
        return
    left = since + seconds - now
    if left > 0:
        yield After(left, because=f"pod {pod.name} tolerates its node's state for {seconds:g} seconds")
    else:
        yield Delete(
            pod,
            because=f"its node has not been ready for {seconds:g} seconds",
            event="TaintManagerEviction",
        )


def _tolerated(pod: Object, taints: list[Tree]) -> tuple[float, float | None]:
    """Since when and for how long a pod bears with the taints that evict: the shortest; None is for ever."""
    since, shortest = 0.0, None
    for taint in taints:
        if taint.get("effect") != "NoExecute":
            continue
        seconds = _bears(pod, taint)
        if seconds is not None and (shortest is None or seconds < shortest):
            shortest = seconds
            since = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else 0.0
    return since, shortest


def _bears(pod: Object, taint: Mapping[str, Any]) -> float | None:
    """How long a pod tolerates a taint; None is for ever."""
    fitting = [one for one in pod.spec.get("tolerations") or () if fits(one, taint)]
    if not fitting:
        return TOLERATED if taint.get("key") in _OURS else 0.0
    limits = [one["tolerationSeconds"] for one in fitting if one.get("tolerationSeconds") is not None]
    return float(max(0, min(limits))) if limits else None
