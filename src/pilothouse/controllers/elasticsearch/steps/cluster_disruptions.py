"""Nodes that the cluster's own controller takes down: through the disruption budget, like everyone else.

    disruptions = cluster_disruptions(observed, steps)
    disruptions.spare          # maxUnavailable of the cluster's budget: 1 while a node can be spared, else 0
    disruptions.steps          # the steps; one that takes a node down waits if the budget does not allow it
    yield from disruptions.intents

Rolls, changes of the configuration and scale-downs spend from the budget (``controllers.disruptions``) before
they take a node down, so that they never meet a drain of a machine or an eviction by hand. The budget follows
the cluster's health: while no node can be spared it is 0, and nobody can evict one. A step that takes a node
down leaves it as it is, and it is 0 from the next decision on.

A node that is down or shut out costs nothing, and neither does one without a vote that has been emptied
before it is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pilothouse.api.kind_names import PodDisruptionBudget
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import healthy
from pilothouse.controllers.disruptions import give_back, is_taken_down, take_down
from pilothouse.controllers.elasticsearch.desired.pools import base_name
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.restart_gate import is_free, why_none_spared
from pilothouse.runtime.intents import Intent

BY: Final = "elasticsearch-clusters"


class OwnDisruptions(msgspec.Struct, frozen=True):
    """The steps that may be taken, and what is written to the budget and to pods for them."""

    steps: tuple[ReconcileStep, ...]
    intents: tuple[Intent, ...]
    """Before those of the steps."""
    spare: int


def cluster_disruptions(observed: ObservedCluster, steps: Sequence[ReconcileStep]) -> OwnDisruptions:
    """Let steps that take nodes down spend from the cluster's budget, or wait for it."""
    budget = _budget(observed)
    taking = [step for step in steps if step.takes_down]
    names = {name for step in taking for name in step.takes_down}
    returned = [
        node.pod
        for node in observed.nodes
        if node.pod is not None and node.name not in names and _is_back(observed, node, node.pod)
    ]
    spare = 0 if why_none_spared(observed) else 1
    if not taking:
        intents = tuple(give_back(budget, returned, now=observed.now)) if returned else ()
        return OwnDisruptions(tuple(steps), intents, spare)
    step = taking[0]
    going = [node for node in observed.nodes if node.name in names]
    taken = take_down(
        budget,
        [node.pod for node in going if node.pod is not None],
        free=[node.name for node in going if _is_free(observed, node)],
        by=BY,
        because=step.message,
        now=observed.now,
        returned=returned,
        excused=_excused(observed, names),
    )
    if taken.wait is not None:
        waiting = ReconcileStep.waiting(
            step.reason, taken.wait, f"{', '.join(sorted(names))} can't go down yet"
        )
        return OwnDisruptions(tuple(waiting if each is step else each for each in steps), (), spare)
    present = budget.spec.get("maxUnavailable") if budget is not None else None
    return OwnDisruptions(tuple(steps), taken.intents, present if isinstance(present, int) else spare)


def _budget(observed: ObservedCluster) -> Object | None:
    cluster = observed.cluster
    found = observed.world.find(PodDisruptionBudget, cluster.namespace, base_name(cluster))
    return found if found is not None and found.owned_by(cluster) else None


def _is_back(observed: ObservedCluster, node: ClusterNode, pod: Object) -> bool:
    """Whether a node that was taken down here serves again."""
    return is_taken_down(pod, BY) and not node.why_unsettled(observed.sets.get(node.pool.name))


def _is_free(observed: ObservedCluster, node: ClusterNode) -> bool:
    if is_free(observed, node):
        return True
    return node.is_decommissioned and not node.pool.is_master


def _excused(observed: ObservedCluster, names: set[str]) -> int:
    """How many nodes are down and need not be up: they are empty."""
    return sum(
        node.is_decommissioned and (node.pod is None or not healthy(node.pod))
        for node in observed.nodes
        if node.name not in names
    )
