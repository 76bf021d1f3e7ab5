"""Pools that are missing, and nodes and space that are.

    step = make_pools(scene)
    step = grow(scene)
    yield from grow_claims(scene)
    yield from kept_claims(scene)        # what becomes of them when nodes or the cluster go

Masters of Elasticsearch before 7 come one by one once the cluster is formed, since each has to be counted before the next may be. A set's claim templates can't be
changed, so claims are grown themselves, those of new nodes right after they were made; if their storage class lets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import PersistentVolumeClaim, StatefulSet, StorageClass
from pilothouse.api.navigator.conditions import WRONG_IMAGE
from pilothouse.api.navigator.labels import VERSION
from pilothouse.api.objects import Object, owner_reference
from pilothouse.base.quantity import parse_quantity
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import (
    DATA,
    annotation_of,
    retention,
    wanted_set,
)
from pilothouse.controllers.elasticsearch.desired.pools import Pool, set_name
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster, ReconcileStep
from pilothouse.controllers.elasticsearch.steps.image_check import bringing
from pilothouse.controllers.elasticsearch.steps.owned_objects import check_own
from pilothouse.controllers.storage.volume_matching import class_of
from pilothouse.meta.versions import Version
from pilothouse.runtime.intents import Create, Intent, PatchObject, Wait

MAKING: Final = "CreatingPools"
GROWING: Final = "ScalingUp"
STARTING: Final = "NodesStarting"


def make_pools(scene: ObservedCluster) -> ReconcileStep | None:
    """The pools that have no set yet. Raises Taken."""
    intents: list[Intent] = []
    for pool in scene.pools.values():
        if pool.name in scene.sets:
            continue
        name = set_name(scene.cluster, pool.name)
        found = scene.world.find(StatefulSet, scene.cluster.namespace, name)
        if found is not None and found.deleting:
            because = f"the set {name} is still being deleted; it is made again when it is gone"
            return ReconcileStep(MAKING, because, wait=Wait("SetTerminating", because=because))
        if found is not None:
            check_own(scene.cluster, found)
        tree = wanted_set(scene.cluster, pool, _version(scene), scene.security)
        tree["metadata"]["ownerReferences"] = [owner_reference(scene.cluster)]
        because = f"pool {pool.name} of {pool.replicas} nodes is made"
        intents.append(Create(tree, because=because, event="CreateNodePool"))
    return (
        ReconcileStep(MAKING, "; ".join(each.because for each in intents), tuple(intents))
        if intents
        else None
    )


def grow(scene: ObservedCluster) -> ReconcileStep | None:
    """Pools that have fewer nodes than are asked for."""
    for pool in scene.pools.values():
        stateful_set = scene.sets.get(pool.name)
        if stateful_set is None:
            continue
        present = int(stateful_set.spec.get("replicas", 1))
        if present >= pool.replicas:
            continue
        wanted = pool.replicas
        if _one_by_one(scene, pool):
            problems = (node.unsettled(scene.sets.get(node.pool.name)) for node in scene.nodes)
            if problem := next(filter(None, problems), ""):
                because = f"pool {pool.name} grows master by master: {problem}"
                return ReconcileStep(GROWING, because, wait=Wait("NodeNotReady", because=because))
            wanted = present + 1
        because = f"pool {pool.name} is scaled from {present} to {wanted}"
        fields = {"spec": {"replicas": wanted}}
        return ReconcileStep(
            GROWING, because, (PatchObject(stateful_set, fields, exact=True, because=because, event="Scale"),)
        )
    return None


def starting(scene: ObservedCluster) -> ReconcileStep | None:
    """Nodes that are not what they should be yet: nothing has to be done but to wait."""
    for node in scene.nodes:
        problem = node.unsettled(scene.sets.get(node.pool.name))
        if problem and not node.is_decommissioned:
            if node.pod is not None and WRONG_IMAGE in problem:
                problem = f"{problem}; {bringing(node.pod, scene.world)}"
            return ReconcileStep(STARTING, problem, wait=Wait("NodeNotReady", because=problem))
    return None


def grow_claims(scene: ObservedCluster) -> Iterator[Intent]:
    """Claims that are smaller than their pool asks for, and may grow."""
    for claim, asked in _too_small(scene):
        if not why_fixed(scene, claim):
            present = claim.at("spec", "resources", "requests", "storage")
            because = f"claim {claim.name} grows from {present} to {asked}"
            fields = {"spec": {"resources": {"requests": {"storage": asked}}}}
            yield PatchObject(claim, fields, because=because, event="GrowVolume")


def kept_claims(scene: ObservedCluster) -> Iterator[Intent]:
    """What the cluster says of its claims is what its sets say."""
    wanted = retention(scene.cluster)
    for pool in scene.pools.values():
        stateful_set = scene.sets.get(pool.name)
        if stateful_set is None or stateful_set.spec.get("persistentVolumeClaimRetentionPolicy") == wanted:
            continue
        because = f"claims of pool {pool.name}: {wanted['whenScaled']} when scaled, {wanted['whenDeleted']} when deleted"
        fields = {"spec": {"persistentVolumeClaimRetentionPolicy": wanted}}
        yield PatchObject(stateful_set, fields, because=because)


def cannot_grow(scene: ObservedCluster) -> str:
    """Which claims should grow and may not, and what would help; empty if none."""
    fixed = [(claim, asked, why) for claim, asked in _too_small(scene) if (why := why_fixed(scene, claim))]
    if not fixed:
        return ""
    _, asked, why = fixed[0]
    names = ", ".join(claim.name for claim, _, _ in fixed)
    return f"{names} can't grow to {asked}: {why}"


def _too_small(scene: ObservedCluster) -> Iterator[tuple[Object, str]]:
    """Claims with the size that their pool asks for."""
    for node in scene.nodes:
        asked = (node.pool.spec.get("persistence") or {}).get("size")
        if asked is None or node.leaving:
            continue
        claim = scene.world.find(PersistentVolumeClaim, scene.cluster.namespace, f"{DATA}-{node.name}")
        if claim is None or claim.deleting or claim.status.get("phase") != "Bound":
            continue
        present = claim.at("spec", "resources", "requests", "storage")
        if present is not None and parse_quantity(present) < parse_quantity(asked):
            yield claim, asked


def why_fixed(scene: ObservedCluster, claim: Object) -> str:
    """Why nobody would grow it; empty if somebody would."""
    name = class_of(claim)
    if not name:
        return "it has no storage class, and only a class says who can grow it"
    storage_class = scene.world.find(StorageClass, "", name)
    if storage_class is None:
        return f"there is no storage class {name}"
    if not storage_class.get("allowVolumeExpansion"):
        return f"storage class {name} does not let claims grow; set allowVolumeExpansion: true in it"
    return ""


def _version(scene: ObservedCluster) -> str:
    """What a new pool starts with: never less than others have been made for, since it could not join them."""
    made_for = [annotation_of(one, VERSION) for one in scene.sets.values()]
    versions = [str(scene.cluster.spec["version"]), *filter(None, made_for)]
    running = [node.version for node in scene.nodes if node.version]
    asked = versions[0]
    behind = running and Version.parse(asked) < max(map(Version.parse, running))
    return max(versions, key=Version.parse) if behind else asked


def _one_by_one(scene: ObservedCluster, pool: Pool) -> bool:
    return pool.is_master and scene.is_formed and Version.parse(scene.cluster.spec["version"]).major < 7
