"""The claims of a set's pods: made from the set's templates, kept or given up as its retention policy says.

    needed = provide(set, wanted, ordinal, world)
    needed.intents                  # claims to make, owners to set
    needed.wait                     # a claim that is in the way: no pod before it is gone

Deleting is the garbage collector's work: a claim that should go with the set names the set as its owner, one that should go with a pod
that is scaled away names that pod. So the owner is written before the pod is deleted, and the order of the two
survives a crash between them.
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
    """What has to be done for a pod's claims, and what keeps its pod from being made."""

    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None


def provide(
    stateful_set: Object, wanted: SetSpec, ordinal: int, world: Snapshot, pod: Object | None = None
) -> ClaimProvision:
    """Have the claims of a pod be there, whether or not the pod is."""
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
    """Have the claims that there are of a pod be owned as the retention policy says."""
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
    """The patch that gives a claim the owner it should have, if it has another."""
    if _of_former_set(claim, stateful_set):
        # The garbage collector is about to deal with it.
        return
    ours = [owner for owner in claim.owners if _is_ours(owner, stateful_set, ordinal)]
    others = [owner for owner in claim.owners if not _is_ours(owner, stateful_set, ordinal)]
    rivals = [owner for owner in others if owner.get("controller")]
    if rivals and (wanted.delete_when_deleted or wanted.delete_when_scaled):
        if ours:
            said = (
                f"claim {claim.name} is controlled by {rivals[0].get('kind')} {rivals[0].get('name')}; "
                "persistentVolumeClaimRetentionPolicy does not count for it"
            )
            yield RecordEvent(stateful_set, because=said, event="ConflictingController", warning=True)
            yield _owners(claim, others, because=said)
        return
    owner = _owner(stateful_set, wanted, ordinal, pod)
    expected = [] if owner is None else [(owner.uid, True)]
    if [(one.get("uid"), bool(one.get("controller"))) for one in ours] == expected:
        return
    if owner is None:
        yield _owners(claim, others, because=f"claim {claim.name} is to be kept whatever becomes of its pod")
    else:
        because = f"claim {claim.name} is to go when {owner.kind} {owner.name} does"
        yield _owners(claim, [*others, owner_reference(owner)], because=because)


def _owner(stateful_set: Object, wanted: SetSpec, ordinal: int, pod: Object | None) -> Object | None:
    if wanted.delete_when_scaled and pod is not None and ordinal not in wanted.ordinals:
        return pod
    return stateful_set if wanted.delete_when_deleted else None


def _owners(claim: Object, owners: list[_Owner], *, because: str) -> PatchObject:
    return PatchObject(claim, {"metadata": {"ownerReferences": owners or None}}, exact=True, because=because)


def _is_ours(owner: _Owner, stateful_set: Object, ordinal: int) -> bool:
    """True for a reference to the set or to the pod, or to a former one of that name."""
    return _names(owner, StatefulSet, stateful_set.name) or _names(
        owner, Pod, pod_name(stateful_set, ordinal)
    )


def _abandoned(claim: Object, stateful_set: Object, wanted: SetSpec, ordinal: int) -> bool:
    """True if a claim whose pod is not there is to go with its former owner, so that the next pod starts afresh."""
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
        because=f"claim {claim.name} is being deleted{kept}; its pod is made when it is gone",
        remedy="end the pods that still use the claim, or have its finalizers removed",
    )


def _collected(claim: Object) -> Wait:
    owner = claim.controller or claim.owners[0]
    return Wait(
        "ClaimAbandoned",
        because=f"claim {claim.name} belongs to a former {owner.get('kind')} {owner.get('name')} and is about to be deleted",
        remedy="the garbage collector has to run; to keep the claim instead, remove its metadata.ownerReferences",
    )
