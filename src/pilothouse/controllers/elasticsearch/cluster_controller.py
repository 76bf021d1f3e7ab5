"""The ElasticsearchCluster controller: what is decided, put together.

    intents = elasticsearch_clusters(cluster, world)

In this order: what the cluster needs beside its nodes; what is said of it; pools that are missing; nodes that are wanted again; what Pilots can be told
without a restart. Then one thing at a time: what has to be rolled comes before what has to shrink, and that before what has to grow. The
status is written before anything that may take long, so that it tells what is being done.
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
from pilothouse.controllers.elasticsearch import reconfiguration, rolling_update, scale_down, scale_up
from pilothouse.controllers.elasticsearch.broken_nodes import BROKEN_FOR
from pilothouse.controllers.elasticsearch.cluster_status import status_of, summary
from pilothouse.controllers.elasticsearch.image_check import IMAGE_MISSING, missing_images
from pilothouse.controllers.elasticsearch.observed_cluster import ObservedCluster, ReconcileStep, observe
from pilothouse.controllers.elasticsearch.owned_objects import NameTaken, ensure_object
from pilothouse.controllers.elasticsearch.security import authority_name, certificates_name, users_name
from pilothouse.controllers.elasticsearch.supporting_objects import supports
from pilothouse.controllers.elasticsearch.template_rollout import VERSIONS
from pilothouse.controllers.elasticsearch.version_policy import REFUSED, refuse
from pilothouse.controllers.elasticsearch.version_status import ACCEPTED
from pilothouse.controllers.elasticsearch.volume_shortage import shortage
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
    if name := labelled.labels.get(ELASTICSEARCH.cluster_label):
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
    scene = observe(cluster, world)
    if cluster.spec.get("paused"):
        yield from _say(scene, ())
        return
    try:
        supporting = [
            intent
            for wanted in supports(cluster, scene.pools.values())
            for intent in ensure_object(cluster, wanted, world)
        ]
        making = scale_up.make_pools(scene)
    except NameTaken as taken:
        yield from _say(scene, (), problem=f"{taken}; {taken.remedy}")
        yield Wait("ObjectTaken", because=str(taken), remedy=taken.remedy)
        return
    if scene.security.missing:
        # What is there goes on as it is; nothing can be made without them.
        because = f"nothing is changed: {scene.security.missing}"
        # Those of a new cluster are about to be made; whatever else is missing, a person has to bring.
        step = ReconcileStep(
            "SecretMissing", because, refused=scene.is_formed or bool(cluster.spec["security"])
        )
        yield from _say(scene, (step,))
        yield from supporting
        yield Wait("SecretMissing", because=because)
        return
    steps = _next(scene, making)
    yield from _say(scene, steps)
    yield from supporting
    yield from scale_down.take_back(scene)
    yield from reconfiguration.tell_pilots(scene)
    yield from scale_up.kept_claims(scene)
    yield from rolling_update.reach(scene)
    yield from scale_down.clear_away(scene)
    for each in steps:
        yield from each.intents
        if each.wait is not None:
            yield each.wait
    yield from scale_up.grow_claims(scene)
    if any(node.down_for(world.now) for node in scene.nodes):
        yield RequeueAfter(BROKEN_FOR, because="a node is down; it may have to be made anew")


def _next(scene: ObservedCluster, making: ReconcileStep | None) -> tuple[ReconcileStep, ...]:
    """All that is done, and what is refused beside it; what is told first comes first."""
    rolls, drains = rolling_update.roll(scene) or reconfiguration.reconfigure(scene), scale_down.drain(scene)
    refusals = [refuse(scene) or missing_images(scene)]
    if drains is not None and drains.refused:
        refusals.append(drains)
        drains = None
    going = rolls or drains or scale_up.grow(scene) or scale_up.starting(scene)
    return tuple(filter(None, (making, going, *refusals)))


def _say(scene: ObservedCluster, steps: Sequence[ReconcileStep], *, problem: str = "") -> Iterator[Intent]:
    """The first of the steps is what goes on; those that are refused are told as well."""
    cluster = scene.cluster
    step = steps[0] if steps else None
    refused = [each for each in steps if each.refused]
    status = status_of(scene, step, refused, problem=problem)
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
    if (short := shortage(scene)) is not None and short.gist not in amiss:
        yield RecordEvent(cluster, because=short.message, event=short.reason, warning=True)
    for each in refused:
        if (event := _WARNINGS.get(each.reason)) and each.message not in amiss:
            yield RecordEvent(cluster, because=each.message, event=event, warning=True)


def _message(cluster: Object, condition: str) -> str:
    return str((cluster.condition(condition) or {}).get("message") or "")
