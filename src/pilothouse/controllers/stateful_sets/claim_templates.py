"""The claims of a set's pods: created from the set's templates, kept or deleted by its retention policy.

    needed = provide(set, wanted, ordinal, world)
    needed.intents                  # claims to create, owners to set
    needed.wait                     # a claim that blocks the pod until it is gone

The garbage collector deletes claims: one that should go with the set has the set as its owner, one that
should go with a pod that is scaled down has that pod, written before the pod is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.api.kind_names import KindName, PersistentVolumeClaim, Pod, StatefulSet
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.controllers.stateful_sets.pod_identity import claim_name, pod_name
from pilothouse.controllers.stateful_sets.set_spec import SetSpec
from pilothouse.runtime.intents import Create, Intent, PatchObject, RecordEvent, Wait
from pilothouse.runtime.snapshot import Snapshot

_Owner = Mapping[str, Any]


class ClaimProvision(msgspec.Struct, frozen=True):
    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None


def provide(
    stateful_set: Object, wanted: SetSpec, ordinal: int, world: Snapshot, pod: Object | None = None
) -> ClaimProvision:
    """Create the claims of a pod, whether or not the pod exists."""
    intents: list[Intent] = []
    wait = None
    for template in wanted.claim_templates:
        name = claim_name(stateful_set, template["metadata"]["name"], ordinal)
        claim = world.find(PersistentVolumeClaim, stateful_set.namespace, name)
        if claim is None:
            tree = _new(stateful_set, wanted, template, name)
            because = f"pod {pod_name(stateful_set, ordinal)} needs claim {name}"
            intents.append(Create(tree, because=because, event="SuccessfulCreate"))
        elif claim.deleting:
            wait = wait or _going(claim)
        elif pod is None and _abandoned(claim, stateful_set, wanted, ordinal):
            wait = wait or _collected(claim)
        else:
            intents.extend(_own(claim, stateful_set, wanted, ordinal, pod))
    return ClaimProvision(tuple(intents), wait)


def retain(
    stateful_set: Object, wanted: SetSpec, ordinal: int, world: Snapshot, pod: Object
) -> Iterator[Intent]:
    """Set the owners of a pod's existing claims by the retention policy."""
    for template in wanted.claim_templates:
        name = claim_name(stateful_set, template["metadata"]["name"], ordinal)
        claim = world.find(PersistentVolumeClaim, stateful_set.namespace, name)
        if claim is not None and not claim.deleting:
            yield from _own(claim, stateful_set, wanted, ordinal, pod)


def _new(stateful_set: Object, wanted: SetSpec, template: Tree, name: str) -> Tree:
    given = template["metadata"]
    metadata: Tree = {
        "name": name,
        "namespace": stateful_set.namespace,
        "labels": {**(given.get("labels") or {}), **wanted.match_labels},
    }
    if given.get("annotations"):
        metadata["annotations"] = given["annotations"]
    if wanted.delete_when_deleted:
        metadata["ownerReferences"] = [owner_reference(stateful_set)]
    return {
        "apiVersion": PersistentVolumeClaim.api_version,
        "kind": PersistentVolumeClaim.kind,
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def _own(
    claim: Object, stateful_set: Object, wanted: SetSpec, ordinal: int, pod: Object | None
) -> Iterator[Intent]:
    """The patch to the right owner of a claim, if it differs."""
    if _of_former_set(claim, stateful_set):
        # The garbage collector is about to handle it.
        return
    ours = [owner for owner in claim.owners if _is_ours(owner, stateful_set, ordinal)]
    others = [owner for owner in claim.owners if not _is_ours(owner, stateful_set, ordinal)]
    rivals = [owner for owner in others if owner.get("controller")]
    if rivals and (wanted.delete_when_deleted or wanted.delete_when_scaled):
        if ours:
            problem = (
                f"claim {claim.name} is controlled by {rivals[0].get('kind')} {rivals[0].get('name')}; "
                "persistentVolumeClaimRetentionPolicy does not apply to it"
            )
            yield RecordEvent(stateful_set, because=problem, event="ConflictingController", warning=True)
            yield _owners(claim, others, because=problem)
        return
    owner = _owner(stateful_set, wanted, ordinal, pod)
    expected = [] if owner is None else [(owner.uid, True)]
    if [(one.get("uid"), bool(one.get("controller"))) for one in ours] == expected:
        return
    if owner is None:
        yield _owners(claim, others, because=f"claim {claim.name} is retained, independent of its pod")
    else:
        because = f"claim {claim.name} is deleted together with {owner.kind} {owner.name}"
        yield _owners(claim, [*others, owner_reference(owner)], because=because)


def _owner(stateful_set: Object, wanted: SetSpec, ordinal: int, pod: Object | None) -> Object | None:
    if wanted.delete_when_scaled and pod is not None and ordinal not in wanted.ordinals:
        return pod
    return stateful_set if wanted.delete_when_deleted else None


def _owners(claim: Object, owners: list[_Owner], *, because: str) -> PatchObject:
    return PatchObject(claim, {"metadata": {"ownerReferences": owners or None}}, exact=True, because=because)


def _is_ours(owner: _Owner, stateful_set: Object, ordinal: int) -> bool:
    """True for a reference to the set or the pod, or to an earlier one of that name."""
    return _names(owner, StatefulSet, stateful_set.name) or _names(
        owner, Pod, pod_name(stateful_set, ordinal)
    )


def _abandoned(claim: Object, stateful_set: Object, wanted: SetSpec, ordinal: int) -> bool:
    """True if a claim without a pod is deleted with its earlier owner, so that the next pod starts empty."""
    name = pod_name(stateful_set, ordinal)
    of_pod = any(_names(owner, Pod, name) for owner in claim.owners)
    return (of_pod and wanted.delete_when_scaled) or _of_former_set(claim, stateful_set)


def _of_former_set(claim: Object, stateful_set: Object) -> bool:
    return any(
        _names(owner, StatefulSet, stateful_set.name) and owner.get("uid") != stateful_set.uid
        for owner in claim.owners
    )


def _names(owner: _Owner, noun: KindName, name: str) -> bool:
    return (
        owner.get("apiVersion") == noun.api_version
        and owner.get("kind") == noun.kind
        and owner.get("name") == name
    )


def _going(claim: Object) -> Wait:
    kept = f" and kept by its finalizers: {', '.join(claim.finalizers)}" if claim.finalizers else ""
    return Wait(
        "ClaimTerminating",
        because=f"claim {claim.name} is being deleted{kept}; its pod is created afterwards",
        remedy="delete the pods that still use the claim, or remove its finalizers",
    )


def _collected(claim: Object) -> Wait:
    owner = claim.controller or claim.owners[0]
    return Wait(
        "ClaimAbandoned",
        because=f"claim {claim.name} belongs to an earlier {owner.get('kind')} {owner.get('name')} and is "
        "about to be deleted",
        remedy="wait for the garbage collector; to keep the claim instead, remove its "
        "metadata.ownerReferences",
    )
