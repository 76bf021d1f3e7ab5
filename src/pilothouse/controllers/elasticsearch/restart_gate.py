"""Whether a node may be made anew now.

    if wait := why_not_restart(scene, node, template): ...       # a Wait, or None if its pod may go

One node at a time, when all others are in and the shards are where they belong (``health``). One that is down takes nothing away, but none
gets what another was made from and has not been able to start with: an image that is nowhere would take all nodes that are slow, one
after the other. A machine that is known to lack the image keeps the node that it has.
"""

from __future__ import annotations

from pilothouse.controllers.elasticsearch.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.image_check import why_no_image
from pilothouse.controllers.elasticsearch.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.template_rollout import digest
from pilothouse.controllers.elasticsearch.version_policy import target
from pilothouse.runtime.intents import Wait


def why_not_restart(scene: ObservedCluster, node: ClusterNode, template: str) -> Wait | None:
    """Why a node can't be made anew now, from this template."""
    return scene.why_not(node) or untried(scene, node, template) or why_no_image(scene, node, template)


def untried(scene: ObservedCluster, taken: ClusterNode, template: str) -> Wait | None:
    """Nobody is taken while another that has the same, or is about to, has not been able to start with it."""
    for pool in scene.in_rolling_order:
        wanted = target(scene, pool)
        same = template if pool.name == taken.pool.name else digest(wanted) if wanted is not None else ""
        for node in scene.of(pool.name):
            if node.name == taken.name or node.leaving:
                continue
            # One that has run with it may go and come back as it was, as from a machine that is lost.
            if node.pod is None or (not node.has_run if node.template == same else node.pod.deleting):
                problem = node.unsettled(scene.sets[pool.name])
                because = f"{problem}; no other gets what {node.name} has not started with"
                return Wait("NodeNotStarted", because=because)
    return None
