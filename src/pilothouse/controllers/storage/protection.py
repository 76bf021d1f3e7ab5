"""Neither a claim nor a volume goes while it is in use.

Each gets a finalizer as soon as it is there. A claim that is to go keeps it while a pod that has a node uses it, a volume while
its claim is there. Deleting a database's claim by mistake thus takes nothing from under it.
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
    """The claims that a pod uses."""
    return [(pod.namespace, name) for name in claims_of(pod)]


@controller(PersistentVolumeClaim, also={Pod: used}, standalone=True)
def claim_protection(claim: Object, world: Snapshot) -> Iterator[Intent]:
    """A claim stays while a pod uses it."""
    if not claim.deleting:
        yield from _protected(claim, CLAIM_FINALIZER)
    elif CLAIM_FINALIZER in claim.finalizers:
        # Who has no node yet gets none while the claim is to go.
        users = [
            pod.name
            for pod in world.all(Pod, claim.namespace)
            if pod.spec.get("nodeName") and claim.name in claims_of(pod)
        ]
        if users:
            names = ", ".join(users)
            yield Wait(
                "InUse", because=f"it is to go, but pods use it: {names}", remedy=f"delete the pods {names}"
            )
        else:
            yield _freed(claim, CLAIM_FINALIZER, "no pod uses it")


@controller(PersistentVolume, also={PersistentVolumeClaim: of_claim}, standalone=True)
def volume_protection(volume: Object, world: Snapshot) -> Iterator[Intent]:
    """A volume stays while a claim has it."""
    if not volume.deleting:
        yield from _protected(volume, VOLUME_FINALIZER)
        return
    if VOLUME_FINALIZER not in volume.finalizers:
        return
    reference = volume.spec.get("claimRef") or {}
    namespace, name, uid = (str(reference.get(field) or "") for field in ("namespace", "name", "uid"))
    claim = world.find(PersistentVolumeClaim, namespace, name) if uid else None
    if claim is not None and claim.uid == uid:
        because = f"it is to go, but claim {namespace}/{name} has it"
        yield Wait("InUse", because=because, remedy=f"kubectl delete pvc {name} -n {namespace}")
        return
    gone = (ObjectTarget(PersistentVolumeClaim, namespace, name, uid),) if uid else ()
    yield _freed(volume, VOLUME_FINALIZER, "no claim has it", gone)


def _protected(one: Object, finalizer: str) -> Iterator[Intent]:
    if finalizer not in one.finalizers:
        fields = {"metadata": {"finalizers": [*one.finalizers, finalizer]}}
        yield PatchObject(one, fields, exact=True, because="it must not go while it is in use")


def _freed(one: Object, finalizer: str, because: str, unless: tuple[ObjectTarget, ...] = ()) -> Intent:
    kept = [other for other in one.finalizers if other != finalizer]
    fields = {"metadata": {"finalizers": kept or None}}
    return PatchObject(one, fields, exact=True, unless=unless, because=because)
