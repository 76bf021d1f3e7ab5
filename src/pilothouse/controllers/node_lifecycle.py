"""The node lifecycle controller: taints nodes that stop reporting, and evicts their pods.

A node renews its lease in ``kube-node-lease`` every few seconds. What counts is when an update *arrives*
here, not the time in it, so the clocks of nodes do not matter. Time in which nothing could arrive (a manager
that has just started, an API server that was away: ``client.watch_freshness``) does not count.

* No report for the grace period: the conditions become ``Unknown``, and the taint ``unreachable`` is set; the
  node reports that it is not ready: the taint ``not-ready``.
* While a node has either, its pods are not ready, so that services skip them, and each is deleted when its
  toleration of the taint ends: by default after 300 seconds. Reporting again and ready, the taints go.
* If no node at all reports, the fault is more likely on our side: no pod is deleted, and no toleration starts
  to run.
* Pressure on memory, disk or PIDs, no network and cordoning are taints too, which keep further pods away. A
  taint ``NoExecute`` of anyone else also evicts the pods that don't tolerate it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pilothouse.api.kind_names import Lease, Node, Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import NODE_NOT_READY
from pilothouse.api.tolerations import CONDITION_TAINTS, NOT_READY, UNREACHABLE, fits
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.meta.conditions import condition_is, find_condition, with_condition
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Delete, Intent, PatchObject, RequeueAfter, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

LEASES: Final = "kube-node-lease"
SILENCE_GRACE: Final = 50.0
"""Seconds without a heartbeat after which a node counts as unreachable."""
_LOOK: Final = 1.0
DEFAULT_TOLERATION: Final = 300.0
"""Seconds that a pod without a toleration of its own stays on a node that is unreachable or not ready."""
_TOLERATED_BY_DEFAULT: Final = frozenset({UNREACHABLE, NOT_READY})
_SILENT: Final = "NodeStatusUnknown"
_CONDITION_TAINTS: Final = {kind: key for key, kind in CONDITION_TAINTS.items() if kind != "Ready"}
"""Taints by the conditions that a node reports."""
_CORDONED: Final = "node.kubernetes.io/unschedulable"
_MANAGED_TAINTS: Final = frozenset({UNREACHABLE, NOT_READY, _CORDONED, *_CONDITION_TAINTS.values()})
"""The taints that this controller manages."""


def its_node(pod: Object, world: Snapshot) -> Names:
    if name := pod.spec.get("nodeName"):
        yield "", name


def node_of_lease(lease: Object, world: Snapshot) -> Names:
    if lease.namespace == LEASES:
        yield "", lease.name


@controller(Node, also={Lease: node_of_lease, Pod: its_node}, standalone=True)
def node_lifecycle(node: Object, world: Snapshot) -> Iterator[Intent]:
    """Taint a node that does not report, and evict its pods."""
    silent = _silence(node, world)
    status: Mapping[str, Any] = node.status
    if silent >= SILENCE_GRACE:
        silent_status = _silent_status(node, world.now)
        if silent_status != status:
            yield SetStatus(
                node, silent_status, because=f"the node has not reported for {SILENCE_GRACE:g} seconds"
            )
        status = silent_status
    else:
        yield RequeueAfter(max(_LOOK, SILENCE_GRACE - silent), because="waiting for the next heartbeat")
    trouble = _trouble_taint(status)
    all_silent = trouble == UNREACHABLE and not _any_reports(world)
    # Others may have written Unknown too: the silence is observed here, or was when tolerations began to run.
    unproven = trouble == UNREACHABLE and silent < SILENCE_GRACE and not _evicts(node)
    taints = _tainted(node, _wanted(node, status, trouble, evicting=not (all_silent or unproven)), world.now)
    if taints != list(node.spec.get("taints") or ()):
        yield PatchObject(
            node, {"spec": {"taints": taints or None}}, exact=True, because=_taint_text(trouble)
        )
    if all_silent:
        yield Wait(
            "NobodyHeard",
            because="no node reports, so its pods are not evicted: the fault is more likely in the control "
            "plane",
            remedy="check that the nodes run and reach the API server",
            seconds=SILENCE_GRACE,
        )
    pods = world.where(Pod, "spec.nodeName", node.name)
    if trouble:
        yield from _not_ready(pods, world.now)
    for pod in pods:
        yield from _evicted(pod, taints, world.now)


def _silence(node: Object, world: Snapshot) -> float:
    """Seconds; a node without a lease counts from its last status."""
    return world.silence(Lease, LEASES, node.name, node.arrived)


def _any_reports(world: Snapshot) -> bool:
    return any(_silence(node, world) < SILENCE_GRACE for node in world.all(Node))


def _evicts(node: Object) -> bool:
    """Whether tolerations of the node's pods have started to run."""
    taints = node.spec.get("taints") or ()
    return any(each.get("key") == UNREACHABLE and each.get("effect") == "NoExecute" for each in taints)


def _trouble_taint(status: Mapping[str, Any]) -> str:
    """The taint of a node that does not report, or reports that it is not ready; empty if it is ready."""
    ready = find_condition(status.get("conditions"), "Ready")
    if ready is None:
        return NOT_READY
    return {"True": "", "Unknown": UNREACHABLE}.get(str(ready.get("status")), NOT_READY)


def _taint_text(trouble: str) -> str:
    return {UNREACHABLE: "the node is unreachable", NOT_READY: "the node is not ready"}.get(
        trouble, "the node is ready"
    )


def _silent_status(node: Object, now: float) -> Tree:
    """The status of a node that does not report."""
    conditions = list(node.status.get("conditions") or ())
    known = {condition.get("type"): condition for condition in conditions}
    silent = {
        "status": "Unknown",
        "reason": _SILENT,
        "message": "The node stopped reporting its status.",
    }
    for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        if known.get(kind, {}).get("status") != "Unknown":
            conditions = with_condition(conditions, {"type": kind, **silent}, now=format_time(now))
    return {**node.status, "conditions": conditions}


def _wanted(
    node: Object, status: Mapping[str, Any], trouble: str, *, evicting: bool
) -> list[tuple[str, str]]:
    """The managed taints that the node should have: key and effect."""
    wanted = [(trouble, "NoSchedule")] if trouble else []
    if trouble and evicting:
        wanted.append((trouble, "NoExecute"))
    wanted += [
        (key, "NoSchedule")
        for kind, key in _CONDITION_TAINTS.items()
        if condition_is(status.get("conditions"), kind)
    ]
    if node.spec.get("unschedulable"):
        wanted.append((_CORDONED, "NoSchedule"))
    return wanted


def _tainted(node: Object, wanted: list[tuple[str, str]], now: float) -> list[Tree]:
    """The node's taints with the wanted managed ones; an existing one keeps its time."""
    kept = [
        _timed(taint, now)
        for taint in node.spec.get("taints") or ()
        if taint.get("key") not in _MANAGED_TAINTS or (taint.get("key"), taint.get("effect")) in wanted
    ]
    there = {(taint.get("key"), taint.get("effect")) for taint in kept}
    added = [
        {"key": key, "effect": effect, "timeAdded": format_time(now)}
        for key, effect in wanted
        if (key, effect) not in there
    ]
    return kept + added


def _timed(taint: Mapping[str, Any], now: float) -> Tree:
    """A ``NoExecute`` taint has a time: tolerations run from then on."""
    if taint.get("effect") == "NoExecute" and not taint.get("timeAdded"):
        return {**taint, "timeAdded": format_time(now)}
    return dict(taint)


def _not_ready(pods: Sequence[Object], now: float) -> Iterator[Intent]:
    """Mark the pods of a node that is not ready as not ready."""
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": NODE_NOT_READY,
        "message": "Its node is not ready.",
    }
    for pod in pods:
        if pod.is_true("Ready"):
            conditions = with_condition(pod.status.get("conditions"), condition, now=format_time(now))
            yield SetStatus(pod, {**pod.status, "conditions": conditions}, because="its node is not ready")


def _evicted(pod: Object, taints: list[Tree], now: float) -> Iterator[Intent]:
    """Delete a pod when its tolerations of the node's taints have ended."""
    if pod.deleting:
        return
    ends = [
        (parse_time(taint["timeAdded"]) + seconds, seconds)
        for taint in taints
        if taint.get("effect") == "NoExecute" and (seconds := _tolerated_seconds(pod, taint)) is not None
    ]
    if not ends:
        return
    end, seconds = min(ends)
    if end > now:
        because = f"pod {pod.name} tolerates its node's taints for {seconds:g} seconds"
        yield RequeueAfter(end - now, because=because)
    else:
        because = f"pod {pod.name} tolerated its node's taints for {seconds:g} seconds"
        yield Delete(pod, because=because, event="TaintManagerEviction")


def _tolerated_seconds(pod: Object, taint: Mapping[str, Any]) -> float | None:
    """How long a pod tolerates a taint; None is forever."""
    fitting = [one for one in pod.spec.get("tolerations") or () if fits(one, taint)]
    if not fitting:
        return DEFAULT_TOLERATION if taint.get("key") in _TOLERATED_BY_DEFAULT else 0.0
    limits = [one["tolerationSeconds"] for one in fitting if one.get("tolerationSeconds") is not None]
    return float(max(0, min(limits))) if limits else None
