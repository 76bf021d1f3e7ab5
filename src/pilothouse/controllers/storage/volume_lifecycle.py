"""What becomes of a volume: free, a claim's, or left behind by one.

* ``Available``: no claim has it, though it may be set aside for one by name.
* ``Bound``: the claim that it names is there.
* ``Released``: that claim is gone. With the policy ``Retain`` it stays as it is, with all that is on it, until somebody takes
  ``spec.claimRef`` away. With ``Delete`` the provisioner that made it deletes it; if none did, the phase is ``Failed`` and says so.

That a claim is gone is asked of the server before it is believed: who deletes volumes on our word must be able to rely on it.
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
    """The volumes that say they are a claim's."""
    for volume in world.where(PersistentVolume, "spec.claimRef.uid", claim.uid):
        yield volume.key


@controller(PersistentVolume, also={PersistentVolumeClaim: of_claim}, standalone=True)
def volumes(volume: Object, world: Snapshot) -> Iterator[Intent]:
    """A volume says whether it is free, and goes as its policy says when its claim is gone."""
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
        yield from _phase(volume, "Bound", f"claim {claim.namespace}/{claim.name} has it")
    elif claim.spec.get("volumeName"):
        yield from _spared(volume, claim)
    else:
        yield Wait(
            "ClaimPending",
            because=f"claim {claim.namespace}/{claim.name}, whose it is, has not taken it yet",
            remedy=f"kubectl describe pvc {claim.name} -n {claim.namespace}",
        )


def _released(volume: Object, reference: Mapping[str, Any]) -> Iterator[Intent]:
    gone = f"claim {reference.get('namespace')}/{reference.get('name')}, which had it, is gone"
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
            remedy=f"see that {provisioner} runs",
        )
    else:
        because = f"{gone}, and nobody knows how to {policy.lower()} it"
        yield from _phase(volume, "Failed", because, claim, message=because)
        yield Wait(
            "NobodyReclaims",
            because=because,
            remedy=f"save what is on it and kubectl delete pv {volume.name}",
        )


def _spared(volume: Object, claim: Object) -> Iterator[Intent]:
    """The claim took another volume: this one is free again, unless it was made for the claim."""
    because = f"claim {claim.namespace}/{claim.name} has volume {claim.spec['volumeName']} instead"
    if (
        volume.annotations.get(PROVISIONED_BY)
        and volume.spec.get("persistentVolumeReclaimPolicy") == "Delete"
    ):
        yield from _phase(volume, "Released", because)
    elif BOUND_BY_US in volume.annotations:
        fields: Tree = {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_US: None}}}
        yield PatchObject(volume, fields, exact=True, because=because)
    else:
        yield PatchObject(volume, {"spec": {"claimRef": {"uid": None}}}, exact=True, because=because)


def _phase(
    volume: Object, phase: str, because: str, unless: ObjectTarget | None = None, *, message: str = ""
) -> Iterator[Intent]:
    """Have the volume say in which phase it is; ``unless`` is the claim that must be gone for it."""
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
