"""Nodes that are to go: emptied first, and taken away when they say that they are empty.

    yield from take_back(observed)          # those that are wanted again
    step = drain(observed)                  # who is decommissioned next, waited for, or taken away; None if nobody is to go

All surplus nodes of a pool without masters go together: all are decommissioned, and the set shrinks when all have said that nothing is
left. Masters go one by one over the whole cluster, each when all other nodes are in, so that no majority is lost. A pool that was removed shrinks
to nothing in the same way, and then its set goes.

A node that was never started has nothing to say and nothing to lose. It is let go while the data is known to be elsewhere.
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
"""Written when the set is about to shrink: it has to be true then that nobody has taken the decommission back."""


def recommission(observed: ObservedCluster) -> Iterator[Intent]:
    """Nodes that are wanted again serve again, if it was from here that they were decommissioned.

    Not while the pod is on its way out, since shards would come to it that go with it.
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
            yield PatchObject(pilot, fields, because=f"{pilot.name} is wanted again", event="Recommission")


def drain(observed: ObservedCluster) -> ReconcileStep | None:
    """The next step for those that are to go."""
    leaving = [node.name for node in observed.nodes if node.leaving]
    if leaving:
        because = f"waiting for {', '.join(leaving)} to be gone"
        return ReconcileStep(SHRINKING, because, wait=Wait("PodTerminating", because=because))
    if problem := _nowhere_to_go(observed):
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
        step = _let_go(observed, pool, going)
        if step.intents:
            return step
        waiting = waiting or step
    return waiting


def delete_removed_pools(observed: ObservedCluster) -> Iterator[Intent]:
    """The sets of removed pools go when nothing is left of them."""
    for pool in observed.pools.values():
        stateful_set = observed.sets.get(pool.name)
        if not pool.removed or stateful_set is None:
            continue
        if not observed.nodes_of(pool.name) and not stateful_set.spec.get("replicas", 1):
            because = f"pool {pool.name} was removed, and its nodes are gone"
            yield Delete(
                stateful_set, exact=True, propagation="Background", because=because, event="DeleteNodePool"
            )


def _going(observed: ObservedCluster, pool: Pool) -> list[ClusterNode]:
    """Those of a pool that are to go now, the highest last."""
    surplus = [node for node in observed.nodes_of(pool.name) if node.ordinal >= pool.replicas]
    return surplus[-1:] if pool.is_master else surplus


def _let_go(observed: ObservedCluster, pool: Pool, going: list[ClusterNode]) -> ReconcileStep:
    names = ", ".join(node.name for node in going)
    why = _REMOVED if pool.removed else _SCALED
    if pool.is_master and observed.is_formed and (wait := why_not_remove(observed, going[-1])):
        return ReconcileStep.waiting(DRAINING, wait, f"{names} is to be removed")
    left = [node for node in going if not _may_go(observed, node)]
    if not left:
        return _unknown(observed, pool, names, several=len(going) > 1) or _shrink(observed, pool, going)
    if pool.is_master and not observed.is_formed:
        because = f"{names} is to go, and the cluster has not been formed yet; masters that were started stay until it is"
        return ReconcileStep(DRAINING, because, wait=Wait("NotFormed", because=because))
    unmarked = [
        _mark(node.pilot, why) for node in left if node.pilot is not None and not _is_marked(node.pilot)
    ]
    said = "; ".join(_left_on(node) for node in left)
    gist = f"{names} {'are to go when they are' if len(going) > 1 else 'is to go when it is'} empty"
    because = f"{gist}: {said}"
    wait = None if unmarked else Wait(DRAINING, because=because, seconds=RECHECK)
    return ReconcileStep(DRAINING, because, gist=gist, intents=tuple(unmarked), wait=wait)


def _may_go(observed: ObservedCluster, node: ClusterNode) -> bool:
    if node.is_decommissioned:
        return True
    never_started = not node.started and node.is_down
    return never_started and (not observed.is_formed or observed.health.status in ("Yellow", "Green"))


def _unknown(observed: ObservedCluster, pool: Pool, names: str, *, several: bool) -> ReconcileStep | None:
    """While a node that stays has no Pilot, nobody knows whether it has what it was given. One is made for its pod at once."""
    for node in observed.nodes_of(pool.name):
        if node.pod is not None and node.pilot is None and node.ordinal < pool.replicas:
            because = f"{names} {'are' if several else 'is'} to go: {_left_on(node)}"
            return ReconcileStep(DRAINING, because, wait=Wait(DRAINING, because=because, seconds=RECHECK))
    return None


def _is_marked(pilot: Object) -> bool:
    """By whomever: a person may have been first."""
    return bool(pilot.spec.get("decommission"))


def _mark(pilot: Object, why: str) -> PatchObject:
    fields = {"metadata": {"annotations": {DECOMMISSIONED_FOR: why}}, "spec": {"decommission": True}}
    return PatchObject(
        pilot, fields, because=f"{pilot.name} is to go: its data is moved away first", event="Decommission"
    )


def _left_on(node: ClusterNode) -> str:
    if node.pilot is None:
        return f"{node.name} has no Pilot, and nobody knows what it holds"
    if node.documents is None:
        return f"{node.name} does not say what it holds"
    said = node.pilot.condition("Decommissioned") or {}
    detail = f" ({said['message']})" if said.get("message") else ""
    return f"{node.name} holds {node.documents} {'document' if node.documents == 1 else 'documents'}{detail}"


def _shrink(observed: ObservedCluster, pool: Pool, going: list[ClusterNode]) -> ReconcileStep:
    """Each Pilot has to be the very one that was seen to be empty when its node is given up."""
    stateful_set = observed.sets[pool.name]
    replicas = going[0].ordinal
    names = ", ".join(node.name for node in going)
    holds = "hold" if len(going) > 1 else "holds"
    left = "but copies of what is whole on others" if any(node.documents for node in going) else "any more"
    before = stateful_set.spec.get("replicas", 1)
    because = f"pool {pool.name} is scaled from {before} to {replicas}: {names} {holds} nothing {left}"
    kept = [
        PatchObject(
            node.pilot,
            {"metadata": {"annotations": {DECOMMISSIONED_FOR: _LEAVING}}},
            exact=True,
            because=f"{node.name} may go and leaves",
        )
        for node in going
        if node.pilot is not None and node.is_decommissioned and DECOMMISSIONED_FOR in node.pilot.annotations
    ]
    shrunk = PatchObject(
        stateful_set, {"spec": {"replicas": replicas}}, exact=True, because=because, event="Scale"
    )
    return ReconcileStep(SHRINKING, because, (*kept, shrunk))


def _nowhere_to_go(observed: ObservedCluster) -> str:
    """Why data can't be moved: no node that holds data would be left."""
    holding = [node for node in observed.nodes if node.pool.holds_data]
    staying = [pool for pool in observed.pools.values() if pool.holds_data and pool.replicas]
    if staying or not holding or not observed.is_formed:
        return ""
    return (
        "no node that holds data would be left, so there is nowhere to move it; "
        "keep a pool with the role data, or delete the cluster"
    )
