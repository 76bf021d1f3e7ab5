"""Changes that need other pods (version, image, resources, placement), one node at a time.

    step = roll(scene)                   # what is done next; None if all pods are made from what is asked for
    yield from reach(scene)              # the version that a pool has come to, written down

They roll through each pool's set by its partition: pools without masters first, in each the highest ordinal first, the next when the one before is
back, runs what it should, and the shards are where they belong (``taking``). What can't be is not begun (``refusing``); a node that does not
get up with what it got is helped out of turn (``broken_nodes``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilothouse.api.navigator.labels import TEMPLATE, VERSION
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import annotation_of
from pilothouse.controllers.elasticsearch.desired.pools import Pool
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster, ReconcileStep
from pilothouse.controllers.elasticsearch.steps import broken_nodes
from pilothouse.controllers.elasticsearch.steps.image_check import missing_images
from pilothouse.controllers.elasticsearch.steps.restart_gate import why_not_restart
from pilothouse.controllers.elasticsearch.steps.template_rollout import (
    TEMPLATES,
    VERSIONS,
    digest,
    held,
    is_held,
    partitioned,
    reason,
    templated,
)
from pilothouse.controllers.elasticsearch.steps.version_policy import target
from pilothouse.runtime.intents import Intent, PatchObject, Wait


def roll(scene: ObservedCluster) -> ReconcileStep | None:
    """The next step of what has to be rolled."""
    steps = (_roll_pool(scene, pool) for pool in scene.in_rolling_order)
    return next(filter(None, steps), None)


def reach(scene: ObservedCluster) -> Iterator[Intent]:
    """Write down the version that all nodes of a pool have."""
    for pool in scene.in_rolling_order:
        stateful_set = scene.sets[pool.name]
        made_for = annotation_of(stateful_set, VERSION)
        if stateful_set.annotations.get(VERSION) == made_for:
            continue
        if all(node.version == made_for == node.made_for for node in scene.of(pool.name)):
            has_nodes = bool(scene.of(pool.name))
            because = (
                f"all nodes of pool {pool.name} have version {made_for}"
                if has_nodes
                else f"pool {pool.name} has no nodes; new ones are made for version {made_for}"
            )
            fields = {"metadata": {"annotations": {VERSION: made_for}}}
            yield PatchObject(stateful_set, fields, because=because, event="UpdateVersion")


def _roll_pool(scene: ObservedCluster, pool: Pool) -> ReconcileStep | None:
    stateful_set, wanted = scene.sets[pool.name], target(scene, pool)
    if wanted is None:
        return None
    present = annotation_of(stateful_set, TEMPLATE)
    nodes = scene.of(pool.name)
    behind = [node for node in nodes if node.pod is not None and node.template != present]
    by_hand = is_held(stateful_set)
    broken = broken_nodes.broken(scene, nodes, digest(wanted))
    early = broken_nodes.taken_back(scene, nodes)
    if early and not broken and not by_hand:
        because = f"{early[-1].name} was made for {early[-1].made_for}, and is not seen to be down yet"
        return ReconcileStep(
            reason(stateful_set, wanted), because, wait=Wait("NodeNotReady", because=because)
        )
    if digest(wanted) != present:
        if broken:
            return broken_nodes.repair(scene, stateful_set, pool, wanted, broken[-1])
        if by_hand:
            because = f"pool {pool.name} gets what is asked for by now"
            return ReconcileStep(TEMPLATES, because, (held(stateful_set, wanted, because),))
        if not behind:
            if missing_images(scene) is not None:
                return None  # It is told as refused; whatever else there is to do goes on.
            return _begin(scene, stateful_set, pool, wanted, nodes)
        if all(node.template in ("", digest(wanted)) for node in nodes):
            because = f"pool {pool.name} goes on with what its pods are made from"
            above = 1 + max(node.ordinal for node in nodes)
            return ReconcileStep(
                TEMPLATES, because, (templated(stateful_set, wanted, above, because, event=""),)
            )
    elif broken and not by_hand:
        return broken_nodes.repair(scene, stateful_set, pool, wanted, broken[-1])
    if by_hand:
        return broken_nodes.go_on(scene, stateful_set, pool, behind)
    return _advance(scene, stateful_set, pool, behind[-1]) if behind else None


def _begin(
    scene: ObservedCluster, stateful_set: Object, pool: Pool, wanted: Tree, nodes: Sequence[ClusterNode]
) -> ReconcileStep:
    """A new template goes out together with the leave to make the highest pod anew."""
    staying = [node for node in nodes if not node.leaving]
    doing = reason(stateful_set, wanted)
    version = wanted["metadata"]["annotations"][VERSION]
    if not staying:
        because = f"pool {pool.name} gets the template of version {version}"
        return ReconcileStep(doing, because, (templated(stateful_set, wanted, 0, because, event=""),))
    first = staying[-1]
    if wait := why_not_restart(scene, first, digest(wanted)):
        return ReconcileStep(doing, f"pool {pool.name} is to be rolled: {wait.because}", wait=wait)
    because = f"pool {pool.name} is rolled to version {version}, {first.name} first"
    begun = templated(stateful_set, wanted, first.ordinal, because, event="UpdateVersion")
    return ReconcileStep(doing, because, (begun,))


def _advance(scene: ObservedCluster, stateful_set: Object, pool: Pool, node: ClusterNode) -> ReconcileStep:
    """The next pod of a roll that is under way."""
    version = annotation_of(stateful_set, VERSION)
    doing = VERSIONS if node.made_for != version else TEMPLATES
    if node.is_due(stateful_set):
        return ReconcileStep(doing, f"pod {node.name} is about to be made anew, for version {version}")
    if wait := why_not_restart(scene, node, annotation_of(stateful_set, TEMPLATE)):
        return ReconcileStep(doing, f"{node.name} is next in pool {pool.name}: {wait.because}", wait=wait)
    because = f"{node.name} is next: made anew for version {version}"
    return ReconcileStep(
        doing, because, (partitioned(stateful_set, node.ordinal, because, event="UpdateVersion"),)
    )
