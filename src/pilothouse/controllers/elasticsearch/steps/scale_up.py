"""Missing pools, missing nodes, and volumes that are too small.

    step = create_pools(observed)
    step = add_nodes(observed)
    yield from expand_claims(observed)
    yield from update_claim_retention(observed)    # what happens to claims when nodes or the cluster go

Masters of Elasticsearch before 7 are added one by one once the cluster has formed: ``minimum_master_nodes``
has to count each before the next joins. The claim templates of a set are immutable, so claims are expanded
themselves, those of added nodes right after their creation, if their storage class allows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import PersistentVolumeClaim, StatefulSet, StorageClass
from pilothouse.api.navigator.conditions import WRONG_IMAGE
from pilothouse.api.navigator.labels import VERSION
from pilothouse.api.navigator.upgrade_paths import unknown
from pilothouse.api.objects import Object, owner_reference
from pilothouse.base.quantity import parse_quantity
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import (
    DATA,
    annotation_of,
    retention,
    wanted_set,
)
from pilothouse.controllers.elasticsearch.desired.pools import Pool, set_name
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps.image_check import import_advice
from pilothouse.controllers.elasticsearch.steps.owned_objects import check_own
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.storage.volume_matching import class_of
from pilothouse.meta.versions import Version
from pilothouse.runtime.intents import Create, Intent, PatchObject, Wait

CREATING: Final = "CreatingPools"
GROWING: Final = "ScalingUp"
STARTING: Final = "NodesStarting"
_RESIZE_ERRORS: Final = ("NodeResizeError", "ControllerResizeError")
"""Conditions of a claim whose expansion failed."""


def create_pools(observed: ObservedCluster) -> ReconcileStep | None:
    """Create the StatefulSets that are missing. Raises NameTaken.

    None are created for a version that pilots can't run: their pods would only wait for its image.
    """
    if unknown(_version(observed)):
        return None
    intents: list[Intent] = []
    for pool in observed.pools.values():
        if pool.name in observed.sets:
            continue
        name = set_name(observed.cluster, pool.name)
        found = observed.world.find(StatefulSet, observed.cluster.namespace, name)
        if found is not None and found.deleting:
            because = f"StatefulSet {name} is still being deleted; it is created again afterwards"
            return ReconcileStep.waiting(CREATING, Wait("SetTerminating", because=because))
        if found is not None:
            check_own(observed.cluster, found)
        tree = wanted_set(observed.cluster, pool, _version(observed), observed.security)
        tree["metadata"]["ownerReferences"] = [owner_reference(observed.cluster)]
        because = f"creating pool {pool.name} with {pool.replicas} nodes"
        intents.append(Create(tree, because=because, event="CreateNodePool"))
    return (
        ReconcileStep(CREATING, "; ".join(each.because for each in intents), tuple(intents))
        if intents
        else None
    )


def add_nodes(observed: ObservedCluster) -> ReconcileStep | None:
    """Scale up the next pool that has fewer nodes than the spec asks for."""
    for pool in observed.pools.values():
        stateful_set = observed.sets.get(pool.name)
        if stateful_set is None:
            continue
        present = int(stateful_set.spec.get("replicas", 1))
        if present >= pool.replicas:
            continue
        wanted = pool.replicas
        if _one_by_one(observed, pool):
            problems = (node.why_unsettled(observed.sets.get(node.pool.name)) for node in observed.nodes)
            if problem := next(filter(None, problems), ""):
                because = f"pool {pool.name} gets one master at a time: {problem}"
                return ReconcileStep.waiting(GROWING, Wait("NodeNotReady", because=because))
            wanted = present + 1
        because = f"scaling pool {pool.name} from {present} to {wanted}"
        fields = {"spec": {"replicas": wanted}}
        return ReconcileStep(
            GROWING, because, (PatchObject(stateful_set, fields, exact=True, because=because, event="Scale"),)
        )
    return None


def wait_for_nodes(observed: ObservedCluster) -> ReconcileStep | None:
    """Wait for the first node that is not settled, if there is nothing else to do."""
    for node in observed.nodes:
        problem = node.why_unsettled(observed.sets.get(node.pool.name))
        if problem and not node.is_decommissioned:
            if node.pod is not None and WRONG_IMAGE in problem:
                problem = f"{problem}; {import_advice(node.pod, observed.world)}"
            return ReconcileStep.waiting(STARTING, Wait("NodeNotReady", because=problem))
    return None


def expand_claims(observed: ObservedCluster) -> Iterator[Intent]:
    """Expand claims that are smaller than their pool asks for, and lower a request that could not be met."""
    for claim, asked in _too_small(observed):
        if not why_not_expandable(observed, claim):
            present = claim.at("spec", "resources", "requests", "storage")
            because = f"expanding claim {claim.name} from {present} to {asked}"
            fields = {"spec": {"resources": {"requests": {"storage": asked}}}}
            yield PatchObject(claim, fields, because=because, event="GrowVolume")
    for claim, asked in _claims(observed):
        present = claim.at("spec", "resources", "requests", "storage")
        capacity = claim.at("status", "capacity", "storage")
        if present is None or capacity is None or not failed_expansion(claim):
            continue
        # Not to what it has: Kubernetes takes a lower request only if it still is an expansion.
        if parse_quantity(capacity) < parse_quantity(asked) < parse_quantity(present):
            because = f"claim {claim.name} can't be expanded to {present}: asking for {asked} instead"
            fields = {"spec": {"resources": {"requests": {"storage": asked}}}}
            yield PatchObject(claim, fields, because=because, event="GrowVolume")


def update_claim_retention(observed: ObservedCluster) -> Iterator[Intent]:
    """Copy the retention policy of claims from the cluster to its sets."""
    wanted = retention(observed.cluster)
    for pool in observed.pools.values():
        stateful_set = observed.sets.get(pool.name)
        if stateful_set is None or stateful_set.spec.get("persistentVolumeClaimRetentionPolicy") == wanted:
            continue
        because = (
            f"retention of the claims of pool {pool.name}: "
            f"{wanted['whenScaled']} when scaled, {wanted['whenDeleted']} when deleted"
        )
        fields = {"spec": {"persistentVolumeClaimRetentionPolicy": wanted}}
        yield PatchObject(stateful_set, fields, because=because)


def unexpandable_claims(observed: ObservedCluster) -> str:
    """Which claims should be expanded and can't be, and why; empty if none."""
    fixed = [
        (claim, asked, why)
        for claim, asked in _too_small(observed)
        if (why := why_not_expandable(observed, claim))
    ]
    found = [failed for claim, _ in _claims(observed) if (failed := failed_expansion(claim))]
    if fixed:
        _, asked, why = fixed[0]
        names = ", ".join(claim.name for claim, _, _ in fixed)
        found.insert(0, f"{names} can't be expanded to {asked}: {why}")
    return "; ".join(found)


def failed_expansion(claim: Object) -> str:
    """Which size a claim can't be expanded to, and why, as its node or driver reports; empty if neither
    does."""
    for kind in _RESIZE_ERRORS:
        condition = claim.condition(kind) or {}
        if condition.get("status") == "True":
            asked = claim.at("spec", "resources", "requests", "storage")
            why = condition.get("message") or condition.get("reason") or "no reason is reported"
            return f"claim {claim.name} can't be expanded to {asked}: {why}"
    return ""


def _too_small(observed: ObservedCluster) -> Iterator[tuple[Object, str]]:
    """Claims that are smaller than their pool asks for, with that size."""
    for claim, asked in _claims(observed):
        present = claim.at("spec", "resources", "requests", "storage")
        if present is not None and parse_quantity(present) < parse_quantity(asked):
            yield claim, asked


def _claims(observed: ObservedCluster) -> Iterator[tuple[Object, str]]:
    """The bound claims of nodes that stay, with the size that their pool asks for."""
    for node in observed.nodes:
        asked = (node.pool.spec.get("persistence") or {}).get("size")
        if asked is None or node.leaving:
            continue
        claim = observed.world.find(PersistentVolumeClaim, observed.cluster.namespace, f"{DATA}-{node.name}")
        if claim is not None and not claim.deleting and claim.status.get("phase") == "Bound":
            yield claim, asked


def why_not_expandable(observed: ObservedCluster, claim: Object) -> str:
    """Why this claim can't be expanded; empty if it can."""
    name = class_of(claim)
    if not name:
        return "it has no storage class, which would say how to expand it"
    storage_class = observed.world.find(StorageClass, "", name)
    if storage_class is None:
        return f"storage class {name} does not exist"
    if not storage_class.get("allowVolumeExpansion"):
        return f"storage class {name} does not allow expansion; set allowVolumeExpansion: true in it"
    return ""


def _version(observed: ObservedCluster) -> str:
    """The version of a pool to be created: never lower than that of the others, or it could not join them."""
    made_for = [annotation_of(one, VERSION) for one in observed.sets.values()]
    versions = [str(observed.cluster.spec["version"]), *filter(None, made_for)]
    running = [node.version for node in observed.nodes if node.version]
    asked = versions[0]
    behind = running and Version.parse(asked) < max(map(Version.parse, running))
    return max(versions, key=Version.parse) if behind else asked


def _one_by_one(observed: ObservedCluster, pool: Pool) -> bool:
    return pool.is_master and observed.is_formed and Version.parse(observed.cluster.spec["version"]).major < 7
