"""Nodes that do not start with the template of their pod: they get another one, out of turn.

    found = broken(observed, nodes, digest)                        # pods of other templates that do not start
    step = repair(observed, stateful_set, pool, wanted, found[-1])
    step = continue_repair(observed, stateful_set, pool, behind)   # the next step in a set under repair

A template that breaks a node is replaced in the middle of the roll. The set then gets the strategy
``OnDelete``, since with a partition it would replace the good nodes above the broken one first. This module
deletes the pods, the broken one first. When all have the template, the set gets its partition back.

A version that was withdrawn from the spec while a pod waited for it (it was mistyped, and has no image) is
such a template too. If the pod can't have run it has written nothing, and the version goes back. The pod is
deleted only if it is unchanged since it was read, so that one which starts after all keeps its version
(``database_container`` says why that is safe). A set would not check that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pilothouse.api.navigator.labels import TEMPLATE
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import annotation_of
from pilothouse.controllers.elasticsearch.desired.pools import Pool
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps import restart_gate
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.template_rollout import (
    TEMPLATES,
    hold_template,
    roll_from,
    rollout_reason,
    template_digest,
)
from pilothouse.meta.versions import Version
from pilothouse.runtime.intents import Delete

BROKEN_FOR: Final = 60.0
"""Seconds for which a node does not start before its pod is replaced out of turn."""


def broken(observed: ObservedCluster, nodes: Iterable[ClusterNode], template: str) -> list[ClusterNode]:
    """The nodes whose pods have another template than this and do not start."""
    return [node for node in nodes if node.template != template and _is_broken(observed, node)]


def withdrawn(observed: ObservedCluster, nodes: Iterable[ClusterNode]) -> list[ClusterNode]:
    """The nodes whose pods were created for a later version than the spec has."""
    return [node for node in nodes if _is_withdrawn(observed, node)]


def repair(
    observed: ObservedCluster, stateful_set: Object, pool: Pool, wanted: Tree, node: ClusterNode
) -> ReconcileStep:
    """Give a node that does not start the wanted template, out of turn."""
    reason, problem = (
        rollout_reason(stateful_set, wanted),
        f"{node.name} does not become ready with its template",
    )
    if wait := restart_gate.why_template_unproven(observed, node, template_digest(wanted)):
        return ReconcileStep.waiting(reason, wait, problem)
    because = f"{problem}; pool {pool.name} gets the current one"
    return ReconcileStep(reason, because, (hold_template(stateful_set, wanted, because),))


def continue_repair(
    observed: ObservedCluster, stateful_set: Object, pool: Pool, behind: Sequence[ClusterNode]
) -> ReconcileStep:
    """Delete the pods of a set with the strategy ``OnDelete``: those that are down, then one by one."""
    if not behind:
        because = f"pool {pool.name} is repaired"
        return ReconcileStep(TEMPLATES, because, (roll_from(stateful_set, 0, because, event=""),))
    down = [node for node in behind if _is_broken(observed, node)]
    node = (down or behind)[-1]
    if node.pod is None or node.pod.deleting:
        return ReconcileStep(TEMPLATES, f"pod {node.name} is about to be replaced")
    if wait := restart_gate.why_not_replace(observed, node, annotation_of(stateful_set, TEMPLATE)):
        return ReconcileStep.waiting(TEMPLATES, wait, f"{node.name} is next in pool {pool.name}")
    because = f"deleting pod {node.name}, to replace it"
    deletion = Delete(node.pod, exact=True, because=because, event="UpdateVersion")
    return ReconcileStep(TEMPLATES, because, (deletion,), takes_down=(node.name,))


def _is_broken(observed: ObservedCluster, node: ClusterNode) -> bool:
    """Whether a node does not start with its template, or waits for a withdrawn version."""
    if _is_withdrawn(observed, node) and (node.has_wrong_image or (node.cannot_have_run and node.is_down)):
        return node.pod is not None and not node.pod.deleting
    return node.broken_for(observed.now) >= BROKEN_FOR


def _is_withdrawn(observed: ObservedCluster, node: ClusterNode) -> bool:
    return Version.parse(node.made_for or "0") > Version.parse(str(observed.cluster.spec["version"]))
