"""Changes that need new pods (version, image, resources, placement), one node at a time.

    step = roll(observed)                   # the next step; None if all pods have their template
    yield from record_versions(observed)    # the version that all nodes of a pool have reached

The roll moves the partition of each pool's StatefulSet: pools without masters first, in each the highest
ordinal first, the next when ``restart_gate`` lets it. A roll to a version that ``version_policy`` refuses is
not started. A node that does not start with its template is replaced out of turn (``broken_nodes``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilothouse.api.navigator.labels import TEMPLATE, VERSION
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import annotation_of
from pilothouse.controllers.elasticsearch.desired.pools import Pool
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps import broken_nodes, restart_gate
from pilothouse.controllers.elasticsearch.steps.image_check import missing_images
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.template_rollout import (
    TEMPLATES,
    VERSIONS,
    hold_template,
    is_held,
    roll_from,
    roll_template,
    rollout_reason,
    template_digest,
)
from pilothouse.controllers.elasticsearch.steps.version_policy import target_template
from pilothouse.runtime.intents import Intent, PatchObject, Wait


def roll(observed: ObservedCluster) -> ReconcileStep | None:
    """The next step of the roll, in any pool."""
    steps = (_roll_pool(observed, pool) for pool in observed.rolling_order)
    return next(filter(None, steps), None)


def record_versions(observed: ObservedCluster) -> Iterator[Intent]:
    """Record in a set's annotation the version that all nodes of its pool have."""
    for pool in observed.rolling_order:
        stateful_set = observed.sets[pool.name]
        made_for = annotation_of(stateful_set, VERSION)
        if stateful_set.annotations.get(VERSION) == made_for:
            continue
        if all(node.version == made_for == node.made_for for node in observed.nodes_of(pool.name)):
            has_nodes = bool(observed.nodes_of(pool.name))
            because = (
                f"all nodes of pool {pool.name} have version {made_for}"
                if has_nodes
                else f"pool {pool.name} has no nodes; its next ones get version {made_for}"
            )
            fields = {"metadata": {"annotations": {VERSION: made_for}}}
            yield PatchObject(stateful_set, fields, because=because, event="UpdateVersion")


def _roll_pool(observed: ObservedCluster, pool: Pool) -> ReconcileStep | None:
    stateful_set, wanted = observed.sets[pool.name], target_template(observed, pool)
    if wanted is None:
        return None
    present = annotation_of(stateful_set, TEMPLATE)
    nodes = observed.nodes_of(pool.name)
    behind = [node for node in nodes if node.pod is not None and node.template != present]
    by_hand = is_held(stateful_set)
    broken = broken_nodes.broken(observed, nodes, template_digest(wanted))
    early = broken_nodes.withdrawn(observed, nodes)
    if early and not broken and not by_hand:
        because = f"{early[-1].name} was created for {early[-1].made_for}, and is not known to be down yet"
        wait = Wait("NodeNotReady", because=because)
        return ReconcileStep.waiting(rollout_reason(stateful_set, wanted), wait)
    if template_digest(wanted) != present:
        if broken:
            return broken_nodes.repair(observed, stateful_set, pool, wanted, broken[-1])
        if by_hand:
            because = f"pool {pool.name} gets the current template"
            return ReconcileStep(TEMPLATES, because, (hold_template(stateful_set, wanted, because),))
        if not behind:
            if missing_images(observed) is not None:
                return None  # Reported as refused; everything else goes on.
            return _begin(observed, stateful_set, pool, wanted, nodes)
        if all(node.template in ("", template_digest(wanted)) for node in nodes):
            because = f"pool {pool.name} gets back the template that its pods have"
            above = 1 + max(node.ordinal for node in nodes)
            return ReconcileStep(
                TEMPLATES, because, (roll_template(stateful_set, wanted, above, because, event=""),)
            )
    elif broken and not by_hand:
        return broken_nodes.repair(observed, stateful_set, pool, wanted, broken[-1])
    if by_hand:
        return broken_nodes.continue_repair(observed, stateful_set, pool, behind)
    return _advance(observed, stateful_set, pool, behind[-1]) if behind else None


def _begin(
    observed: ObservedCluster, stateful_set: Object, pool: Pool, wanted: Tree, nodes: Sequence[ClusterNode]
) -> ReconcileStep:
    """Set a template, and let the set replace the highest pod."""
    staying = [node for node in nodes if not node.leaving]
    doing = rollout_reason(stateful_set, wanted)
    version = wanted["metadata"]["annotations"][VERSION]
    if not staying:
        because = f"pool {pool.name} gets the template of version {version}"
        return ReconcileStep(doing, because, (roll_template(stateful_set, wanted, 0, because, event=""),))
    first = staying[-1]
    if wait := restart_gate.why_not_replace(observed, first, template_digest(wanted)):
        return ReconcileStep.waiting(doing, wait, f"pool {pool.name} is to be rolled")
    because = f"rolling pool {pool.name} to version {version}, {first.name} first"
    begun = roll_template(stateful_set, wanted, first.ordinal, because, event="UpdateVersion")
    return ReconcileStep(doing, because, (begun,), takes_down=(first.name,))


def _advance(observed: ObservedCluster, stateful_set: Object, pool: Pool, node: ClusterNode) -> ReconcileStep:
    """The next pod of a roll in progress."""
    version = annotation_of(stateful_set, VERSION)
    doing = VERSIONS if node.made_for != version else TEMPLATES
    if node.is_due(stateful_set):
        return ReconcileStep(doing, f"pod {node.name} is about to be replaced, for version {version}")
    if wait := restart_gate.why_not_replace(observed, node, annotation_of(stateful_set, TEMPLATE)):
        return ReconcileStep.waiting(doing, wait, f"{node.name} is next in pool {pool.name}")
    because = f"replacing pod {node.name}, for version {version}"
    advanced = roll_from(stateful_set, node.ordinal, because, event="UpdateVersion")
    return ReconcileStep(doing, because, (advanced,), takes_down=(node.name,))
