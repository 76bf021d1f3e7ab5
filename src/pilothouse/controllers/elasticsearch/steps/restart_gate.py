"""The gate through which every node passes that is taken down on purpose: whether it may go down at this
moment.

    why_not_restart(observed, node)              # for another configuration; a Wait, or None if it may
    why_not_replace(observed, node, template)    # for a pod of another template
    why_not_remove(observed, node)               # for good: a master that is scaled down
    why_none_spared(observed)                    # whoever takes it down: what the disruption budget follows

One node at a time, when all others are settled and the shards are allocated. A node that is down may be
restarted at any time: that makes nothing unavailable. But no node gets a template with which another has not
started: a wrong image would otherwise take down all slow nodes one after the other. A healthy node stays
where it is if its machine lacks the image.

A master that has the only vote, as one of two has, gives it away before it stops, and gets it back shortly
after it has joined again. Until then the other has no one to pass its own vote to. So no master is taken down
while another has no vote.

A node may be *shut out*: it runs, but the others have formed the cluster without it, all with later versions,
and Elasticsearch does not admit a node that is behind all others. It rejoins with its data only if it is
updated too. How long it has been out is measured with two clocks, the pilot's and ours. If they differ, the
node is updated early or late; it serves no one either way.
"""

from __future__ import annotations

from typing import Final

from pilothouse.controllers.elasticsearch.observed.cluster_health import ClusterHealth
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps.image_check import why_image_missing
from pilothouse.controllers.elasticsearch.steps.template_rollout import template_digest
from pilothouse.controllers.elasticsearch.steps.version_policy import target_template
from pilothouse.meta.versions import Version
from pilothouse.runtime.intents import Wait

RECHECK: Final = 10.0
"""Seconds until another check of what depends on time or on leases, which trigger no reconcile."""
SHUT_OUT_AFTER: Final = 60.0
"""Seconds out of touch before a node counts as shut out: a short silence is no reason to restart."""


def why_not_restart(observed: ObservedCluster, node: ClusterNode) -> Wait | None:
    """Why this node can't be taken down at this moment; None if it can. Drained nodes don't count."""
    if is_free(observed, node):
        return None
    if problem := _unsettled_other(observed, node.name, _drained(observed)):
        recheck = RECHECK if node.is_out_of_touch else None
        return Wait("NodeNotReady", because=problem, seconds=recheck)
    return _why_health_forbids(observed, is_master=node.pool.is_master)


def why_none_spared(observed: ObservedCluster) -> Wait | None:
    """Why no node at all can be taken down at this moment; None if any one can."""
    if problem := _unsettled_other(observed, "", _drained(observed)):
        return Wait("NodeNotReady", because=problem)
    has_masters = any(node.pool.is_master for node in observed.nodes)
    return _why_health_forbids(observed, is_master=has_masters)


def is_free(observed: ObservedCluster, node: ClusterNode) -> bool:
    """Whether a node may be taken down at any time: it is down, or shut out."""
    return node.is_down or _is_shut_out(observed, node)


def _why_health_forbids(observed: ObservedCluster, *, is_master: bool) -> Wait | None:
    health = observed.health
    if not health.status:
        because = "the cluster's health is unknown: no pilot leads, or the leading one has not reported yet"
        return Wait("HealthUnknown", because=because, seconds=RECHECK)
    for each in observed.nodes:
        if not each.is_decommissioned and health.members.get(each.name) != each.started:
            because = f"the cluster's health was last reported before {each.name} joined"
            return Wait("HealthOutdated", because=because, seconds=RECHECK if each.is_out_of_touch else None)
    if is_master and (wait := _why_votes_missing(health)):
        return wait
    if health.status == "Red":
        return Wait("Red", because="the cluster's health is Red: data is missing, and no node can be spared")
    if health.status == "Yellow" and not health.settled:
        because = "the cluster's health is Yellow, and shards are still initializing"
        return Wait("Recovering", because=because)
    return None


def _drained(observed: ObservedCluster) -> set[str]:
    """The nodes that are empty and stay for now: whether they are up makes no difference."""
    return {each.name for each in observed.nodes if each.is_decommissioned and not each.leaving}


def why_not_replace(observed: ObservedCluster, node: ClusterNode, template: str) -> Wait | None:
    """Why the pod of this node can't be replaced by one of this template at this moment."""
    return (
        why_not_restart(observed, node)
        or why_template_unproven(observed, node, template)
        or why_image_missing(observed, node, template)
    )


def why_not_remove(observed: ObservedCluster, node: ClusterNode) -> Wait | None:
    """Why this master can't be removed yet: all other nodes have to be in, with their votes."""
    if problem := _unsettled_other(observed, node.name, set()):
        return Wait("NodeNotReady", because=problem)
    return _why_votes_missing(observed.health)


def why_template_unproven(observed: ObservedCluster, node: ClusterNode, template: str) -> Wait | None:
    """No node gets a template while another that has it, or is about to get it, has not started with it."""
    for pool in observed.rolling_order:
        wanted = target_template(observed, pool)
        same = template_digest(wanted) if wanted is not None else ""
        if pool.name == node.pool.name:
            same = template
        for other in observed.nodes_of(pool.name):
            if other.name == node.name or other.leaving:
                continue
            # One that has run with it may go and come back, as after the loss of a machine.
            if other.pod is None or (not other.has_run if other.template == same else other.pod.deleting):
                problem = other.why_unsettled(observed.sets[pool.name])
                because = (
                    f"{problem}; no other node gets the template before {other.name} has started with it"
                )
                return Wait("NodeNotStarted", because=because)
    return None


def _unsettled_other(observed: ObservedCluster, name: str, ignored: set[str]) -> str:
    """Which node, other than that of this name, is not settled, and why; empty if all are."""
    for other in observed.nodes:
        if other.name == name or other.name in ignored:
            continue
        if problem := other.why_unsettled(observed.sets.get(other.pool.name)):
            return f"{problem}; one node at a time"
    return ""


def _why_votes_missing(health: ClusterHealth) -> Wait | None:
    """Why no master can be taken down: another has no vote. The leading pilot gives it back."""
    if not health.without_vote:
        return None
    several = len(health.without_vote) > 1
    missing = "do not have their votes" if several else "does not have its vote"
    because = f"{', '.join(health.without_vote)} {missing} back yet; one master at a time"
    return Wait("VoteHeld", because=because)


def _is_shut_out(observed: ObservedCluster, node: ClusterNode) -> bool:
    """Whether a node can't rejoin the cluster with the version that it has."""
    members = observed.health.members
    if not members or node.name in members or node.out_of_touch_for(observed.now) < SHUT_OUT_AFTER:
        return False
    versions = [each.version for each in observed.nodes if each.name in members]
    return bool(node.version and versions) and all(
        version and Version.parse(version) > Version.parse(node.version) for version in versions
    )
