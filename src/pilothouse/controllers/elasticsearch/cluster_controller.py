"""The ElasticsearchCluster controller: puts the steps together to one decision.

    intents = elasticsearch_clusters(cluster, world)

In this order: the status; the objects that the cluster needs besides its nodes; nodes that are
recommissioned; Pilots that change without a restart; missing pools. Then one change at a time: rolls come
before scaling down, and that before scaling up. The status is written first, so that it shows what is being
done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.kind_names import (
    ElasticsearchCluster,
    Lease,
    Node,
    PersistentVolumeClaim,
    Pilot,
    Pod,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Secret,
    Service,
    ServiceAccount,
    StatefulSet,
    StorageClass,
)
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.desired.security import (
    authority_name,
    certificates_name,
    users_name,
)
from pilothouse.controllers.elasticsearch.desired.supporting_objects import supporting_objects
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster, observe
from pilothouse.controllers.elasticsearch.status.cluster_status import status_of, summary
from pilothouse.controllers.elasticsearch.status.version_status import ACCEPTED
from pilothouse.controllers.elasticsearch.status.volume_shortage import shortage
from pilothouse.controllers.elasticsearch.steps import reconfiguration, rolling_update, scale_down, scale_up
from pilothouse.controllers.elasticsearch.steps.broken_nodes import BROKEN_FOR
from pilothouse.controllers.elasticsearch.steps.cluster_disruptions import cluster_disruptions
from pilothouse.controllers.elasticsearch.steps.image_check import IMAGE_MISSING, missing_images
from pilothouse.controllers.elasticsearch.steps.owned_objects import NameTaken, ensure_object
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.template_rollout import VERSIONS
from pilothouse.controllers.elasticsearch.steps.version_policy import REFUSED, refused_version
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, RecordEvent, RequeueAfter, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

_WARNINGS = {
    VERSIONS: "ErrUpdateVersion",
    REFUSED: "ErrUpdateVersion",
    IMAGE_MISSING: "ErrUpdateVersion",
    scale_down.DRAINING: "ErrScale",
    scale_down.REFUSED: "ErrScale",
}
"""The event for a step that waits or is refused."""
_TRANSIENT = frozenset(
    {"NodeNotReady", "HealthOutdated", "HealthUnknown", "Recovering", "VoteHeld", "DisruptionBudget"}
)
"""Waits that every restart in a roll brings along: ``Progressing`` shows them, and no event warns of them. A
node that does not come back is in ``Degraded``."""


def cluster_of(labelled: Object, world: Snapshot) -> Names:
    """The cluster of a pod or a claim, by its label."""
    if name := labelled.labels.get(ELASTICSEARCH.cluster_label):
        yield labelled.namespace, name


def clusters_with_volumes(changed: Object, world: Snapshot) -> Names:
    """The clusters with claims: any may use this class, since a pool need not name one."""
    for cluster in world.all(ElasticsearchCluster):
        if any(pool.get("persistence") for pool in cluster.spec.get("nodePools") or ()):
            yield cluster.namespace, cluster.name


def clusters_without_images(node: Object, world: Snapshot) -> Names:
    """The clusters that wait for an image, which this node may have by now."""
    for cluster in world.all(ElasticsearchCluster):
        if (cluster.condition(ACCEPTED) or {}).get("reason") == IMAGE_MISSING:
            yield cluster.namespace, cluster.name


def clusters_using_secret(secret: Object, world: Snapshot) -> Names:
    """The clusters that use a Secret, regardless of who created it."""
    for cluster in world.all(ElasticsearchCluster, secret.namespace):
        if cluster.spec.get("security") is not None and secret.name in (
            certificates_name(cluster),
            users_name(cluster),
            authority_name(cluster),
        ):
            yield cluster.namespace, cluster.name


@controller(
    ElasticsearchCluster,
    owns=(StatefulSet, Pilot, Service, ServiceAccount, Role, RoleBinding, PodDisruptionBudget),
    also={
        Pod: cluster_of,
        PersistentVolumeClaim: cluster_of,
        Secret: clusters_using_secret,
        StorageClass: clusters_with_volumes,
        Node: clusters_without_images,
    },
    reads=Lease,
)
def elasticsearch_clusters(cluster: Object, world: Snapshot) -> Iterator[Intent]:
    """Create, roll, drain and scale the pools of a cluster, one change at a time."""
    if cluster.deleting:
        return
    observed = observe(cluster, world)
    # A refused version is reported whatever else keeps the cluster from being changed.
    refusal = refused_version(observed)
    refusals = (refusal,) if refusal is not None else ()
    if cluster.spec.get("paused"):
        yield from _report(observed, refusals)
        return
    try:
        create = scale_up.create_pools(observed)
        steps = _next(observed, create, refusal) if not observed.security.missing else ()
        disruptions = cluster_disruptions(observed, steps)
        supporting = [
            intent
            for wanted in supporting_objects(cluster, observed.pools.values(), spare=disruptions.spare)
            for intent in ensure_object(cluster, wanted, world)
        ]
    except NameTaken as taken:
        yield from _report(observed, refusals, problem=f"{taken}; {taken.remedy}")
        yield Wait("ObjectTaken", because=str(taken), remedy=taken.remedy)
        return
    if observed.security.missing:
        # What exists goes on; nothing can be created without them.
        because = f"no changes are made: {observed.security.missing}"
        # Those of a cluster that has not formed are about to be created; any other a person has to provide.
        step = ReconcileStep(
            "SecretMissing", because, refused=observed.is_formed or bool(cluster.spec["security"])
        )
        yield from _report(observed, (step, *refusals))
        yield from supporting
        yield Wait("SecretMissing", because=because)
        return
    steps = disruptions.steps
    yield from _report(observed, steps)
    yield from supporting
    yield from disruptions.intents
    yield from scale_down.recommission(observed)
    yield from reconfiguration.update_pilots(observed)
    yield from scale_up.update_claim_retention(observed)
    yield from rolling_update.record_versions(observed)
    yield from scale_down.delete_removed_pools(observed)
    for each in steps:
        yield from each.intents
        if each.wait is not None:
            yield each.wait
    yield from scale_up.expand_claims(observed)
    if any(node.down_for(world.now) for node in observed.nodes):
        yield RequeueAfter(BROKEN_FOR, because="a node is down and may have to be replaced")


def _next(
    observed: ObservedCluster, create: ReconcileStep | None, refusal: ReconcileStep | None
) -> tuple[ReconcileStep, ...]:
    """The steps that are taken, and those that are refused; the first is the one to report."""
    roll = rolling_update.roll(observed) or reconfiguration.reconfigure(observed)
    drain = scale_down.drain(observed)
    refusals = [refusal or missing_images(observed)]
    if drain is not None and drain.refused:
        refusals.append(drain)
        drain = None
    change = roll or drain or scale_up.add_nodes(observed) or scale_up.wait_for_nodes(observed)
    return tuple(filter(None, (create, change, *refusals)))


def _report(
    observed: ObservedCluster, steps: Sequence[ReconcileStep], *, problem: str = ""
) -> Iterator[Intent]:
    """Write the status and events. The first step is in progress; refused ones are reported too."""
    cluster = observed.cluster
    step = steps[0] if steps else None
    refused = [each for each in steps if each.refused]
    status = status_of(observed, step, refused, problem=problem)
    if status != cluster.status:
        yield SetStatus(cluster, status, because=problem or summary(status, step))
    progressing, degraded = _message(cluster, "Progressing"), _message(cluster, "Degraded")
    if problem:
        if not progressing.startswith(problem):
            yield RecordEvent(cluster, because=problem, event="ErrSync", warning=True)
        return
    if step is not None and step.wait is not None and not step.refused and step.wait.reason not in _TRANSIENT:
        message = step.gist or step.message
        if (event := _WARNINGS.get(step.reason)) and not progressing.startswith(message):
            yield RecordEvent(cluster, because=message, event=event, warning=True)
    if (short := shortage(observed)) is not None and short.gist not in degraded:
        yield RecordEvent(cluster, because=short.message, event=short.reason, warning=True)
    for each in refused:
        if (event := _WARNINGS.get(each.reason)) and each.message not in degraded:
            yield RecordEvent(cluster, because=each.message, event=event, warning=True)


def _message(cluster: Object, condition: str) -> str:
    return str((cluster.condition(condition) or {}).get("message") or "")
