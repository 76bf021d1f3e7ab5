"""The ElasticsearchCluster controller: what is decided, put together.

    intents = elasticsearch_clusters(cluster, world)

In this order: what the cluster needs beside its nodes; what is said of it; pools that are missing; nodes that are wanted again; what Pilots can be told
without a restart. Then one thing at a time: what has to be rolled comes before what has to shrink, and that before what has to grow. The
status is written before anything that may take long, so that it tells what is being done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from pilothouse.api.navigator.labels import CLUSTER_NAME
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
"""The event that tells of a step that waits, or is refused."""
_PASSING = frozenset({"NodeNotReady", "HealthOutdated", "HealthUnknown", "Recovering", "VoteHeld"})
"""What every restart in a roll brings along: it is waited for, as ``Progressing`` says, and is nothing to warn of. A node that does not come back is told in
``Degraded``."""


def its_cluster(labelled: Object, world: Snapshot) -> Names:
    """The cluster that a pod or a claim is of, by its label."""
    if name := labelled.labels.get(CLUSTER_NAME[ElasticsearchCluster.kind]):
        yield labelled.namespace, name


def those_with_volumes(changed: Object, world: Snapshot) -> Names:
    """The clusters whose claims a storage class may concern: any that has some, since a pool need not name its class."""
    for cluster in world.all(ElasticsearchCluster):
        if any(pool.get("persistence") for pool in cluster.spec.get("nodePools") or ()):
            yield cluster.namespace, cluster.name


def those_without_images(node: Object, world: Snapshot) -> Names:
    """The clusters that wait for an image, which may have come to this node."""
    for cluster in world.all(ElasticsearchCluster):
        if (cluster.condition(ACCEPTED) or {}).get("reason") == IMAGE_MISSING:
            yield cluster.namespace, cluster.name


def its_secrets(secret: Object, world: Snapshot) -> Names:
    """The clusters that use a Secret, whoever has made it."""
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
        Pod: its_cluster,
        PersistentVolumeClaim: its_cluster,
        Secret: its_secrets,
        StorageClass: those_with_volumes,
        Node: those_without_images,
    },
    reads=Lease,
)
def elasticsearch_clusters(cluster: Object, world: Snapshot) -> Iterator[Intent]:
    """The pools of a cluster have their nodes, which are drained, rolled and grown one thing at a time."""
    if cluster.deleting:
        return
    observed = observe(cluster, world)
    if cluster.spec.get("paused"):
        yield from _say(observed, ())
        return
    try:
        supporting = [
            intent
            for wanted in supporting_objects(cluster, observed.pools.values())
            for intent in ensure_object(cluster, wanted, world)
        ]
        making = scale_up.create_pools(observed)
    except NameTaken as taken:
        yield from _say(observed, (), problem=f"{taken}; {taken.remedy}")
        yield Wait("ObjectTaken", because=str(taken), remedy=taken.remedy)
        return
    if observed.security.missing:
        # What is there goes on as it is; nothing can be made without them.
        because = f"nothing is changed: {observed.security.missing}"
        # Those of a new cluster are about to be made; whatever else is missing, a person has to bring.
        step = ReconcileStep(
            "SecretMissing", because, refused=observed.is_formed or bool(cluster.spec["security"])
        )
        yield from _say(observed, (step,))
        yield from supporting
        yield Wait("SecretMissing", because=because)
        return
    steps = _next(observed, making)
    yield from _say(observed, steps)
    yield from supporting
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
        yield RequeueAfter(BROKEN_FOR, because="a node is down; it may have to be made anew")


def _next(observed: ObservedCluster, making: ReconcileStep | None) -> tuple[ReconcileStep, ...]:
    """All that is done, and what is refused beside it; what is told first comes first."""
    rolls, drains = (
        rolling_update.roll(observed) or reconfiguration.reconfigure(observed),
        scale_down.drain(observed),
    )
    refusals = [refused_version(observed) or missing_images(observed)]
    if drains is not None and drains.refused:
        refusals.append(drains)
        drains = None
    going = rolls or drains or scale_up.add_nodes(observed) or scale_up.wait_for_nodes(observed)
    return tuple(filter(None, (making, going, *refusals)))


def _say(observed: ObservedCluster, steps: Sequence[ReconcileStep], *, problem: str = "") -> Iterator[Intent]:
    """The first of the steps is what goes on; those that are refused are told as well."""
    cluster = observed.cluster
    step = steps[0] if steps else None
    refused = [each for each in steps if each.refused]
    status = status_of(observed, step, refused, problem=problem)
    if status != cluster.status:
        yield SetStatus(cluster, status, because=problem or summary(status, step))
    doing, amiss = _message(cluster, "Progressing"), _message(cluster, "Degraded")
    if problem:
        if not doing.startswith(problem):
            yield RecordEvent(cluster, because=problem, event="ErrSync", warning=True)
        return
    if step is not None and step.wait is not None and not step.refused and step.wait.reason not in _PASSING:
        told = step.gist or step.message
        if (event := _WARNINGS.get(step.reason)) and not doing.startswith(told):
            yield RecordEvent(cluster, because=told, event=event, warning=True)
    if (short := shortage(observed)) is not None and short.gist not in amiss:
        yield RecordEvent(cluster, because=short.message, event=short.reason, warning=True)
    for each in refused:
        if (event := _WARNINGS.get(each.reason)) and each.message not in amiss:
            yield RecordEvent(cluster, because=each.message, event=event, warning=True)


def _message(cluster: Object, condition: str) -> str:
    return str((cluster.condition(condition) or {}).get("message") or "")
