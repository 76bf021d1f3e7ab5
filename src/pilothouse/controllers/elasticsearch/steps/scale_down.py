"""Nodes that are removed: drained first, and removed when they report that they are empty.

    yield from recommission(observed)       # nodes that the spec asks for again
    step = drain(observed)                  # the next node to decommission, wait for or remove; None if done

All surplus nodes of a pool without masters are removed together: all are decommissioned, and the set is
scaled down when all report that they are empty. Masters are removed one by one across the whole cluster, each
when all other nodes are in, so that no majority is lost. A pool that is gone from the spec is scaled to zero
in the same way, and then its set is deleted.

A node that never started has nothing to report and nothing to lose. It is removed if the data is known to be
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.navigator.labels import DECOMMISSIONED_FOR, POOL_NAME
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.desired.pools import Pool, set_name
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.restart_gate import RECHECK, why_not_remove
from pilothouse.controllers.stateful_sets.pod_identity import ordinal_of
from pilothouse.runtime.intents import Delete, Intent, PatchObject, Wait

DRAINING: Final = "Draining"
SHRINKING: Final = "Shrinking"
REFUSED: Final = "DrainRefused"
_SCALED: Final = "scale-down"
_REMOVED: Final = "pool-removal"
_LEAVING: Final = "leaving"
"""Written just before the set is scaled down: the write fails if the decommission was taken back."""


def recommission(observed: ObservedCluster) -> Iterator[Intent]:
    """Recommission nodes that the spec asks for again, if this controller decommissioned them.

    Not while the pod terminates: shards would move to it and be lost with it.
    """
    leaving = {node.name for node in observed.nodes if node.leaving}
    for pilot in observed.pilots:
        if DECOMMISSIONED_FOR not in pilot.annotations or pilot.name in leaving:
            continue
        pool = observed.pools.get(pilot.labels.get(POOL_NAME, ""))
        if pool is None:
            continue
        ordinal = ordinal_of(set_name(observed.cluster, pool.name), pilot.name)
        if ordinal is not None and ordinal < pool.replicas:
            fields = {
                "metadata": {"annotations": {DECOMMISSIONED_FOR: None}},
                "spec": {"decommission": False},
            }
            yield PatchObject(
                pilot, fields, because=f"the spec asks for {pilot.name} again", event="Recommission"
            )


def drain(observed: ObservedCluster) -> ReconcileStep | None:
    """The next step for nodes that are to be removed."""
    leaving = [node.name for node in observed.nodes if node.leaving]
    if leaving:
        because = f"waiting for {', '.join(leaving)} to terminate"
        return ReconcileStep.waiting(SHRINKING, Wait("PodTerminating", because=because))
    if problem := _why_no_target(observed):
        return ReconcileStep(REFUSED, problem, refused=True)
    waiting: ReconcileStep | None = None
    masters = 0
    for pool in observed.pools.values():
        going = _going(observed, pool)
        if not going:
            continue
        if pool.is_master:
            masters += 1
            if masters > 1:
                continue
        step = _drain_pool(observed, pool, going)
        if step.intents:
            return step
        waiting = waiting or step
    return waiting


def delete_removed_pools(observed: ObservedCluster) -> Iterator[Intent]:
    """Delete the sets of removed pools once they have no pods."""
    for pool in observed.pools.values():
        stateful_set = observed.sets.get(pool.name)
        if not pool.removed or stateful_set is None:
            continue
        if not observed.nodes_of(pool.name) and not stateful_set.spec.get("replicas", 1):
            because = f"pool {pool.name} was removed from the spec, and its nodes are gone"
            yield Delete(
                stateful_set, exact=True, propagation="Background", because=because, event="DeleteNodePool"
            )


def _going(observed: ObservedCluster, pool: Pool) -> list[ClusterNode]:
    """The nodes of a pool that are removed next, the highest last."""
    surplus = [node for node in observed.nodes_of(pool.name) if node.ordinal >= pool.replicas]
    return surplus[-1:] if pool.is_master else surplus


def _drain_pool(observed: ObservedCluster, pool: Pool, going: list[ClusterNode]) -> ReconcileStep:
    names = ", ".join(node.name for node in going)
    why = _REMOVED if pool.removed else _SCALED
    if pool.is_master and observed.is_formed and (wait := why_not_remove(observed, going[-1])):
        return ReconcileStep.waiting(DRAINING, wait, f"{names} is to be removed")
    left = [node for node in going if not _is_removable(observed, node)]
    if not left:
        return _unknown_contents(observed, pool, names, several=len(going) > 1) or _shrink(
            observed, pool, going
        )
    if pool.is_master and not observed.is_formed:
        because = (
            f"{names} is to be removed, but the cluster has not formed yet; "
            "masters that have started stay until it has"
        )
        return ReconcileStep.waiting(DRAINING, Wait("NotFormed", because=because))
    decommissions = [
        _decommission(node.pilot, why)
        for node in left
        if node.pilot is not None and not node.pilot.spec.get("decommission")
    ]
    contents = "; ".join(_contents(node) for node in left)
    gist = f"{names} {'are removed when they are' if len(going) > 1 else 'is removed when it is'} empty"
    because = f"{gist}: {contents}"
    wait = None if decommissions else Wait(DRAINING, because=because, seconds=RECHECK)
    return ReconcileStep(DRAINING, because, gist=gist, intents=tuple(decommissions), wait=wait)


def _is_removable(observed: ObservedCluster, node: ClusterNode) -> bool:
    if node.is_decommissioned:
        return True
    never_started = not node.started and node.is_down
    return never_started and (not observed.is_formed or observed.health.status in ("Yellow", "Green"))


def _unknown_contents(
    observed: ObservedCluster, pool: Pool, names: str, *, several: bool
) -> ReconcileStep | None:
    """Wait for the Pilot of a node that stays: until then it is unknown what it holds."""
    for node in observed.nodes_of(pool.name):
        if node.pod is not None and node.pilot is None and node.ordinal < pool.replicas:
            because = f"{names} {'are' if several else 'is'} to be removed: {_contents(node)}"
            return ReconcileStep.waiting(DRAINING, Wait(DRAINING, because=because, seconds=RECHECK))
    return None


def _decommission(pilot: Object, why: str) -> PatchObject:
    fields = {"metadata": {"annotations": {DECOMMISSIONED_FOR: why}}, "spec": {"decommission": True}}
    return PatchObject(
        pilot,
        fields,
        because=f"{pilot.name} is to be removed: its data is moved away first",
        event="Decommission",
    )


def _contents(node: ClusterNode) -> str:
    if node.pilot is None:
        return f"{node.name} has no Pilot, so what it holds is unknown"
    if node.documents is None:
        return f"{node.name} has not reported what it holds"
    condition = node.pilot.condition("Decommissioned") or {}
    detail = f" ({condition['message']})" if condition.get("message") else ""
    return f"{node.name} holds {node.documents} {'document' if node.documents == 1 else 'documents'}{detail}"


def _shrink(observed: ObservedCluster, pool: Pool, going: list[ClusterNode]) -> ReconcileStep:
    """Scale the set down, provided that no Pilot has changed since it was seen to be empty."""
    stateful_set = observed.sets[pool.name]
    replicas = going[0].ordinal
    names = ", ".join(node.name for node in going)
    several = len(going) > 1
    state = f"{'are' if several else 'is'} empty"
    if any(node.documents for node in going):
        state = f"{'hold' if several else 'holds'} only copies of data that other nodes have"
    before = stateful_set.spec.get("replicas", 1)
    because = f"scaling pool {pool.name} from {before} to {replicas}: {names} {state}"
    kept = [
        PatchObject(
            node.pilot,
            {"metadata": {"annotations": {DECOMMISSIONED_FOR: _LEAVING}}},
            exact=True,
            because=f"{node.name} is drained and is removed",
        )
        for node in going
        if node.pilot is not None and node.is_decommissioned and DECOMMISSIONED_FOR in node.pilot.annotations
    ]
    shrunk = PatchObject(
        stateful_set, {"spec": {"replicas": replicas}}, exact=True, because=because, event="Scale"
    )
    taken = tuple(node.name for node in going)
    return ReconcileStep(SHRINKING, because, (*kept, shrunk), takes_down=taken)


def _why_no_target(observed: ObservedCluster) -> str:
    """Why data can't be moved: no data node would be left."""
    holding = [node for node in observed.nodes if node.pool.holds_data]
    staying = [pool for pool in observed.pools.values() if pool.holds_data and pool.replicas]
    if staying or not holding or not observed.is_formed:
        return ""
    return (
        "no node that holds data would be left, so there is nowhere to move it; "
        "keep a pool with the role data, or delete the cluster"
    )
