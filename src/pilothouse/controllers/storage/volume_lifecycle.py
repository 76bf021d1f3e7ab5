"""The phases of a volume.

``Available``: it has no claim, though it may be reserved for one by name. ``Bound``: its claim exists.
``Released``: that claim is gone; with the policy ``Retain`` it stays so until ``spec.claimRef`` is removed,
with ``Delete`` its provisioner deletes it; if it has none, the phase is ``Failed``.

The server confirms that a claim is gone before that is written: provisioners delete volumes because of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.storage.claim_binder import BOUND_BY_US
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, ObjectTarget, PatchObject, Wait
from pilothouse.runtime.snapshot import Snapshot

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"


def of_claim(claim: Object, world: Snapshot) -> Names:
    for volume in world.where(PersistentVolume, "spec.claimRef.uid", claim.uid):
        yield volume.key


@controller(PersistentVolume, also={PersistentVolumeClaim: of_claim}, standalone=True)
def volumes(volume: Object, world: Snapshot) -> Iterator[Intent]:
    """Set the phase of a volume, and reclaim it when its claim is gone."""
    reference = volume.spec.get("claimRef") or {}
    if not reference.get("uid"):
        yield from _phase(volume, "Available", "no claim has it")
        return
    claim = world.find(
        PersistentVolumeClaim, str(reference.get("namespace", "")), str(reference.get("name", ""))
    )
    if claim is None or claim.uid != reference["uid"]:
        yield from _released(volume, reference)
    elif claim.spec.get("volumeName") == volume.name:
        yield from _phase(volume, "Bound", f"bound to claim {claim.namespace}/{claim.name}")
    elif claim.spec.get("volumeName"):
        yield from _spared(volume, claim)
    else:
        yield Wait(
            "ClaimPending",
            because=f"claim {claim.namespace}/{claim.name}, for which it is reserved, is not bound to it yet",
            remedy=f"kubectl describe pvc {claim.name} -n {claim.namespace}",
        )


def _released(volume: Object, reference: Mapping[str, Any]) -> Iterator[Intent]:
    gone = f"its claim {reference.get('namespace')}/{reference.get('name')} is gone"
    policy = volume.spec.get("persistentVolumeReclaimPolicy") or "Retain"
    provisioner = volume.annotations.get(PROVISIONED_BY)
    claim = ObjectTarget(
        PersistentVolumeClaim,
        str(reference.get("namespace", "")),
        str(reference.get("name", "")),
        str(reference["uid"]),
    )
    if policy == "Retain":
        yield from _phase(volume, "Released", gone, claim)
    elif policy == "Delete" and provisioner:
        yield from _phase(volume, "Released", gone, claim)
        yield Wait(
            "Reclaiming",
            because=f"{gone}; {provisioner} has to delete it",
            remedy=f"check that {provisioner} is running",
        )
    else:
        because = f"{gone}, and no provisioner can {policy.lower()} it"
        yield from _phase(volume, "Failed", because, claim, message=because)
        remedy = f"save its data, then: kubectl delete pv {volume.name}"
        yield Wait("NobodyReclaims", because=because, remedy=remedy)


def _spared(volume: Object, claim: Object) -> Iterator[Intent]:
    """The claim has another volume: this one is free again, unless it was provisioned for the claim."""
    because = f"claim {claim.namespace}/{claim.name} has volume {claim.spec['volumeName']} instead"
    policy = volume.spec.get("persistentVolumeReclaimPolicy")
    if volume.annotations.get(PROVISIONED_BY) and policy == "Delete":
        yield from _phase(volume, "Released", because)
    elif BOUND_BY_US in volume.annotations:
        fields: Tree = {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_US: None}}}
        yield PatchObject(volume, fields, exact=True, because=because)
    else:
        yield PatchObject(volume, {"spec": {"claimRef": {"uid": None}}}, exact=True, because=because)


def _phase(
    volume: Object, phase: str, because: str, unless: ObjectTarget | None = None, *, message: str = ""
) -> Iterator[Intent]:
    """Write the phase; ``unless`` is the claim that must be gone for it."""
    if volume.status.get("phase") == phase:
        return
    fields: Tree = {"status": {"phase": phase, "message": message or None}}
    yield PatchObject(
        volume,
        fields,
        subresource="status",
        exact=True,
        unless=() if unless is None else (unless,),
        because=because,
    )
