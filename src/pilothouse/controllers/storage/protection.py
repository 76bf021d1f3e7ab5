"""Protects claims and volumes from deletion while they are in use.

A claim that is being deleted keeps its finalizer while a pod with a node uses it, a volume while its claim
exists. So deleting a database's claim by mistake does not take its data away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim, Pod
from pilothouse.api.objects import Object
from pilothouse.controllers.scheduling.node_info import claims_of
from pilothouse.controllers.storage.volume_lifecycle import of_claim
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, ObjectTarget, PatchObject, Wait
from pilothouse.runtime.snapshot import Snapshot

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"


def used(pod: Object, world: Snapshot) -> Names:
    return [(pod.namespace, name) for name in claims_of(pod)]


@controller(PersistentVolumeClaim, also={Pod: used}, standalone=True)
def claim_protection(claim: Object, world: Snapshot) -> Iterator[Intent]:
    """Keep a claim while a pod uses it."""
    if not claim.deleting:
        yield from _protected(claim, CLAIM_FINALIZER)
    elif CLAIM_FINALIZER in claim.finalizers:
        # A pod without a node is not scheduled while the claim is being deleted.
        users = [
            pod.name
            for pod in world.all(Pod, claim.namespace)
            if pod.spec.get("nodeName") and claim.name in claims_of(pod)
        ]
        if users:
            names = ", ".join(users)
            because = f"being deleted, but in use by pods {names}"
            yield Wait("InUse", because=because, remedy=f"delete the pods {names}")
        else:
            yield _freed(claim, CLAIM_FINALIZER, "no pod uses it")


@controller(PersistentVolume, also={PersistentVolumeClaim: of_claim}, standalone=True)
def volume_protection(volume: Object, world: Snapshot) -> Iterator[Intent]:
    """Keep a volume while its claim exists."""
    if not volume.deleting:
        yield from _protected(volume, VOLUME_FINALIZER)
        return
    if VOLUME_FINALIZER not in volume.finalizers:
        return
    reference = volume.spec.get("claimRef") or {}
    namespace, name, uid = (str(reference.get(field) or "") for field in ("namespace", "name", "uid"))
    claim = world.find(PersistentVolumeClaim, namespace, name) if uid else None
    if claim is not None and claim.uid == uid:
        because = f"being deleted, but bound to claim {namespace}/{name}"
        yield Wait("InUse", because=because, remedy=f"kubectl delete pvc {name} -n {namespace}")
        return
    gone = (ObjectTarget(PersistentVolumeClaim, namespace, name, uid),) if uid else ()
    yield _freed(volume, VOLUME_FINALIZER, "no claim has it", gone)


def _protected(one: Object, finalizer: str) -> Iterator[Intent]:
    if finalizer not in one.finalizers:
        fields = {"metadata": {"finalizers": [*one.finalizers, finalizer]}}
        yield PatchObject(one, fields, exact=True, because="it must not be deleted while it is in use")


def _freed(one: Object, finalizer: str, because: str, unless: tuple[ObjectTarget, ...] = ()) -> Intent:
    kept = [other for other in one.finalizers if other != finalizer]
    fields = {"metadata": {"finalizers": kept or None}}
    return PatchObject(one, fields, exact=True, unless=unless, because=because)
