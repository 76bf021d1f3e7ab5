"""Binds claims to volumes: to an existing one that fits, or one that a provisioner is asked to create.

A binding is two writes, and safe between them: first the volume gets its claim (``spec.claimRef``, only if it
is unchanged since it was seen to be free), then the claim gets its volume. A claim whose class waits for the
first consumer is left alone until the scheduler has written the node of its pod into it. A claim that names
no class gets the default one as soon as there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from pilothouse.api.local_volumes import PROVISIONED, PROVISIONERS
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.storage.volume_matching import (
    NO_PROVISIONER,
    SELECTED_NODE,
    belongs,
    best,
    class_of,
    default_class,
    mismatch,
    names_no_class,
    waits_for_pod,
)
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, ObjectTarget, PatchObject, RecordEvent, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

BOUND_BY_US: Final = "pv.kubernetes.io/bound-by-controller"
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_OLD_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"


def of_volume(volume: Object, world: Snapshot) -> Names:
    """The claim of a volume, those that name it, and if it is free those that could use it."""
    reference = volume.spec.get("claimRef") or {}
    if reference:
        yield str(reference.get("namespace", "")), str(reference.get("name", ""))
    for claim in world.where(PersistentVolumeClaim, "spec.volumeName", volume.name):
        yield claim.key
    if not reference:
        for claim in world.where(PersistentVolumeClaim, "status.phase", "Pending"):
            if class_of(claim) == class_of(volume):
                yield claim.key


def of_class(storage_class: Object, world: Snapshot) -> Names:
    """The pending claims of a class, and those without a class: it may be the default."""
    for claim in world.where(PersistentVolumeClaim, "status.phase", "Pending"):
        if class_of(claim) in ("", storage_class.name):
            yield claim.key


def sent_to(node: Object, world: Snapshot) -> Names:
    """The claims whose selected node this is."""
    for claim in world.where(PersistentVolumeClaim, "status.phase", "Pending"):
        if claim.annotations.get(SELECTED_NODE) == node.name:
            yield claim.key


@controller(
    PersistentVolumeClaim,
    also={PersistentVolume: of_volume, StorageClass: of_class, Node: sent_to},
    standalone=True,
    condition="Bound",
)
def claims(claim: Object, world: Snapshot) -> Iterator[Intent]:
    """Bind a claim to a volume that fits."""
    if claim.deleting:
        return
    try:
        if claim.spec.get("volumeName"):
            yield from _named(claim, str(claim.spec["volumeName"]), world)
        else:
            yield from _unnamed(claim, world)
    except ValueError as problem:
        yield Wait("SpecUnreadable", because=str(problem), remedy="replace the claim by a valid one")


def _named(claim: Object, name: str, world: Snapshot) -> Iterator[Intent]:
    """A claim that names its volume."""
    volume = world.find(PersistentVolume, "", name)
    completed = COMPLETED in claim.annotations
    if volume is None and not completed:
        because = f"it names volume {name}, which does not exist"
        yield Wait("VolumeMissing", because=because, remedy="create the volume")
    elif volume is None:
        yield from _lost(claim, "ClaimLost", f"its volume {name} is gone")
    elif belongs(volume, claim) or not volume.spec.get("claimRef"):
        yield from _fitted(claim, volume)
    elif completed:
        yield from _lost(claim, "ClaimMisbound", f"its volume {name} is bound to another claim")
    else:
        other = volume.spec["claimRef"]
        claimed = f"{other.get('namespace')}/{other.get('name')}"
        because = f"it names volume {name}, which is bound to claim {claimed}"
        yield Wait("VolumeTaken", because=because, remedy="name another volume, or none")


def _fitted(claim: Object, volume: Object) -> Iterator[Intent]:
    """Bind the claim to the volume reserved for it, unless that does not fit."""
    ours = (volume.spec.get("claimRef") or {}).get("uid") == claim.uid
    if problem := "" if ours else mismatch(claim, volume):
        because = f"volume {volume.name} is reserved for it but does not fit: {problem}"
        yield Wait("VolumeMismatch", because=because, remedy="correct the volume or the claim")
    else:
        yield from _bound(claim, volume)


def _unnamed(claim: Object, world: Snapshot) -> Iterator[Intent]:
    """A claim that takes any volume that fits."""
    if names_no_class(claim) and (default := default_class(world.all(StorageClass))) is not None:
        because = f"it names no class, and {default.name} is the default"
        yield PatchObject(claim, {"spec": {"storageClassName": default.name}}, exact=True, because=because)
        return
    every = world.all(PersistentVolume)
    if (mine := next((one for one in every if belongs(one, claim)), None)) is not None:
        yield from _fitted(claim, mine)
        return
    storage_class = world.find(StorageClass, "", class_of(claim)) if class_of(claim) else None
    node = None
    if waits_for_pod(storage_class):
        selected = claim.annotations.get(SELECTED_NODE)
        if not selected:
            yield Wait(
                "WaitForFirstConsumer",
                because="waiting for first consumer to be created before binding",
                remedy="create a pod that uses it",
            )
            return
        node = world.find(Node, "", selected)
        if node is None:
            yield _choose_again(claim, f"the selected node {selected} is gone")
            return
    volume = best(claim, every, node)
    if volume is not None:
        yield from _bound(claim, volume)
    else:
        yield from _provisioned(claim, storage_class, node)


def _provisioned(claim: Object, storage_class: Object | None, node: Object | None) -> Iterator[Intent]:
    """Request a volume from the provisioner, if there is one."""
    wanted = "create a volume that fits"
    if storage_class is None:
        name = class_of(claim)
        because = (
            f'no volume fits, and storageclass.storage.k8s.io "{name}" not found'
            if name
            else "no persistent volumes available for this claim and no storage class is set"
        )
        remedy = f"{wanted}, or create the storage class {name}" if name else wanted
        yield Wait("NoVolume", because=because, remedy=remedy)
        return
    provisioner = str(storage_class.get("provisioner") or "")
    if provisioner == NO_PROVISIONER:
        if node is not None:
            yield _choose_again(claim, f"no volume that fits is left on node {node.name}")
        yield Wait("NoVolume", because=f"no volume of class {storage_class.name} fits", remedy=wanted)
        return
    if node is None and provisioner in PROVISIONERS:
        yield Wait(
            "NoNodeChosen",
            because=f"{provisioner} creates volumes on the node of the pod, but class {storage_class.name} "
            "does not wait for a pod",
            remedy="use a class with volumeBindingMode: WaitForFirstConsumer",
        )
        return
    because = f"Waiting for a volume to be created by the provisioner {provisioner!r}, or by hand"
    if claim.annotations.get(PROVISIONER) != provisioner:
        asked = {PROVISIONER: provisioner, _OLD_PROVISIONER: provisioner}
        fields = {"metadata": {"annotations": asked}}
        yield PatchObject(claim, fields, exact=True, because=because, event="ExternalProvisioning")
    condition = claim.condition(PROVISIONED) or {}
    if condition.get("status") == "False":
        because = f"{provisioner} can't create its volume: {condition.get('message')}"
        yield Wait("ProvisioningFailed", because=because, remedy="fix that; it is retried automatically")
        return
    yield Wait("ExternalProvisioning", because=because, remedy=f"check that {provisioner} is running")


def _choose_again(claim: Object, because: str) -> Intent:
    """Have the scheduler select another node."""
    fields = {"metadata": {"annotations": {SELECTED_NODE: None}}}
    return PatchObject(claim, fields, exact=True, because=because)


def _bound(claim: Object, volume: Object) -> Iterator[Intent]:
    """Write what is missing of the binding, in both directions."""
    because = f"binding claim {claim.namespace}/{claim.name} to volume {volume.name}"
    present = volume.spec.get("claimRef") or {}
    if present.get("uid") != claim.uid:
        reference = {
            "apiVersion": claim.api_version,
            "kind": claim.kind,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        }
        fields: Tree = {"spec": {"claimRef": reference}}
        if not present:
            fields["metadata"] = {"annotations": {BOUND_BY_US: "yes"}}
        # A claim that is deleted meanwhile must not take the volume with it.
        still = ObjectTarget(PersistentVolumeClaim, claim.namespace, claim.name, claim.uid)
        yield PatchObject(volume, fields, exact=True, provided=still, because=because)
    if claim.spec.get("volumeName") != volume.name or COMPLETED not in claim.annotations:
        marks = {COMPLETED: "yes"} if claim.spec.get("volumeName") else {COMPLETED: "yes", BOUND_BY_US: "yes"}
        fields = {"metadata": {"annotations": marks}, "spec": {"volumeName": volume.name}}
        yield PatchObject(claim, fields, exact=True, because=because)
    if claim.status.get("phase") != "Bound":
        status = {
            **claim.status,
            "phase": "Bound",
            "accessModes": list(volume.spec.get("accessModes") or ()),
            "capacity": dict(volume.spec.get("capacity") or {}),
        }
        yield SetStatus(claim, status, because=because)


def _lost(claim: Object, event: str, because: str) -> Iterator[Intent]:
    if claim.status.get("phase") != "Lost":
        yield SetStatus(claim, {**claim.status, "phase": "Lost"}, because=because)
        yield RecordEvent(claim, event=event, warning=True, because=because)
    yield Wait(event, because=because, remedy="restore the volume, or replace the claim")
