"""Nodes that do not get up with what their pods were made from, and what they get in its place, out of turn.

    found = broken(scene, nodes, digest)                   # whose pods are not made from this, and do not get up
    step = repair(scene, stateful_set, pool, wanted, found[-1])
    step = go_on(scene, stateful_set, pool, behind)        # the next step in a set that is being mended

A template that breaks a node is replaced while the roll stands. The set is then told to wait for deletions (``OnDelete``), since a partition
would have it take the good nodes above the broken one first; the pods are deleted from here, the broken one first. When all have what is
asked for, the set goes by its partition again.

A version that was taken back while a pod waited for it (it was mistyped, and no image has it) is such a template too. Its pod has written nothing if it
can't have run, and goes back; it is deleted only if it is still as it was seen, so that one which starts after all is found out
and keeps its version (``containers`` tells why that is safe). Not by a set, which would not look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pilothouse.api.navigator.labels import TEMPLATE
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed_cluster import ObservedCluster, ReconcileStep
from pilothouse.controllers.elasticsearch.pool_stateful_set import annotation_of
from pilothouse.controllers.elasticsearch.pools import Pool
from pilothouse.controllers.elasticsearch.restart_gate import untried, why_not_restart
from pilothouse.controllers.elasticsearch.template_rollout import TEMPLATES, digest, held, partitioned, reason
from pilothouse.meta.versions import Version
from pilothouse.runtime.intents import Delete

BROKEN_FOR: Final = 60.0
"""Seconds for which a node has not got up before its pod is replaced out of turn."""


def broken(scene: ObservedCluster, nodes: Iterable[ClusterNode], template: str) -> list[ClusterNode]:
    """Those that do not get up with what their pods were made from, which was not this template."""
    return [node for node in nodes if node.template != template and _is_broken(scene, node)]


def taken_back(scene: ObservedCluster, nodes: Iterable[ClusterNode]) -> list[ClusterNode]:
    """Those whose pods were made for a later version than anybody asks for by now."""
    return [node for node in nodes if _is_taken_back(scene, node)]


def repair(
    scene: ObservedCluster, stateful_set: Object, pool: Pool, wanted: Tree, node: ClusterNode
) -> ReconcileStep:
    """A node that does not get up with what it has gets what is wanted, out of turn."""
    if wait := untried(scene, node, digest(wanted)):
        message = f"{node.name} does not get ready with what it was made from: {wait.because}"
        return ReconcileStep(reason(stateful_set, wanted), message, wait=wait)
    because = f"{node.name} does not get ready with what it was made from; pool {pool.name} gets what is asked for by now"
    return ReconcileStep(reason(stateful_set, wanted), because, (held(stateful_set, wanted, because),))


def go_on(
    scene: ObservedCluster, stateful_set: Object, pool: Pool, behind: Sequence[ClusterNode]
) -> ReconcileStep:
    """Pods of a set that waits for deletions are deleted from here: those that are down, then one by one."""
    if not behind:
        because = f"pool {pool.name} is mended"
        return ReconcileStep(TEMPLATES, because, (partitioned(stateful_set, 0, because, event=""),))
    down = [node for node in behind if _is_broken(scene, node)]
    node = (down or behind)[-1]
    if node.pod is None or node.pod.deleting:
        return ReconcileStep(TEMPLATES, f"pod {node.name} is about to be made anew")
    if wait := why_not_restart(scene, node, annotation_of(stateful_set, TEMPLATE)):
        return ReconcileStep(TEMPLATES, f"{node.name} is next in pool {pool.name}: {wait.because}", wait=wait)
    because = f"{node.name} is next: deleted, to be made anew"
    return ReconcileStep(
        TEMPLATES, because, (Delete(node.pod, exact=True, because=because, event="UpdateVersion"),)
    )


def _is_broken(scene: ObservedCluster, node: ClusterNode) -> bool:
    """Whether a node does not get up with what its pod was made from, or waits for a version that nobody asks for any more."""
    if _is_taken_back(scene, node) and (node.has_wrong_image or (node.cannot_have_run and node.is_down)):
        return node.pod is not None and not node.pod.deleting
    return node.broken_for(scene.now) >= BROKEN_FOR


def _is_taken_back(scene: ObservedCluster, node: ClusterNode) -> bool:
    return Version.parse(node.made_for or "0") > Version.parse(str(scene.cluster.spec["version"]))
