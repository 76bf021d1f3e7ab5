"""The nodes that a pod's volumes allow.

    volumes = PodVolumeBinding(pod, world)
    volumes.missing                     # why it can't run anywhere, and what would help
    list(volumes.obstacles(place))
    volumes.unbound                     # claims that are provisioned or bound once a node is selected

A bound claim limits the pod to the nodes that can reach its volume. A claim whose class waits for the first
consumer is bound once the scheduler has written the selected node into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim, StorageClass
from pilothouse.api.objects import Object
from pilothouse.api.topologies import allows
from pilothouse.controllers.scheduling.node_info import NodeInfo, claims_of
from pilothouse.controllers.storage.volume_matching import (
    NO_PROVISIONER,
    SELECTED_NODE,
    best,
    class_of,
    default_class,
    names_no_class,
    reachable,
    waits_for_pod,
)
from pilothouse.runtime.snapshot import Snapshot

CONFLICT: Final = "node(s) had volume node affinity conflict"
NONE_FOUND: Final = "node(s) didn't find available persistent volumes to bind"


class NoFittingVolume(NamedTuple):
    because: str
    remedy: str


class PodVolumeBinding:
    def __init__(self, pod: Object, world: Snapshot) -> None:
        self.unbound: list[Object] = []
        self.missing: NoFittingVolume | None = None
        self._bound: list[Object] = []
        self._classes: dict[str, Object | None] = {}
        self._volumes = world.all(PersistentVolume) if claims_of(pod) else []
        for name in claims_of(pod):
            claim = world.find(PersistentVolumeClaim, pod.namespace, name)
            self.missing = self.missing or self._take(name, claim, world)

    def _take(self, name: str, claim: Object | None, world: Snapshot) -> NoFittingVolume | None:
        if claim is None:
            return NoFittingVolume(f'persistentvolumeclaim "{name}" not found', f"create the claim {name}")
        if claim.deleting:
            return NoFittingVolume(
                f'persistentvolumeclaim "{name}" is being deleted', "create it again once it is gone"
            )
        if claim.status.get("phase") == "Lost":
            volume_name = claim.spec.get("volumeName")
            lost = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume_name}"'
            return NoFittingVolume(lost, "restore the volume, or replace the claim")
        volume = world.find(PersistentVolume, "", str(claim.spec.get("volumeName") or "-"))
        if claim.status.get("phase") == "Bound" and volume is not None:
            self._bound.append(volume)
            return None
        storage_class = world.find(StorageClass, "", class_of(claim) or "-")
        if names_no_class(claim):  # It gets the default class soon.
            storage_class = default_class(world.all(StorageClass))
        # With a selected node and volume it is being bound: that is not a failure.
        prebound = claim.spec.get("volumeName") and not claim.annotations.get(SELECTED_NODE)
        if prebound or not waits_for_pod(storage_class):
            remedy = f"check what claim {name} waits for: kubectl describe pvc {name} -n {claim.namespace}"
            return NoFittingVolume("pod has unbound immediate PersistentVolumeClaims", remedy)
        self.unbound.append(claim)
        self._classes[claim.name] = storage_class
        return None

    def obstacles(self, place: NodeInfo) -> Iterator[str]:
        """Why the pod can't run there, in Kubernetes' words."""
        if not all(reachable(volume, place.node) for volume in self._bound):
            yield CONFLICT
        elif not all(self._bindable(claim, place.node) for claim in self.unbound):
            yield NONE_FOUND

    def _bindable(self, claim: Object, node: Object) -> bool:
        """True if the claim could be bound if the pod ran on a node."""
        chosen = claim.annotations.get(SELECTED_NODE)
        if chosen:
            # A provisioner may be at work there; if it fails, it removes the annotation.
            return bool(chosen == node.name)
        if best(claim, self._volumes, node) is not None:
            return True
        storage_class = self._classes[claim.name]
        if storage_class is None or storage_class.get("provisioner") == NO_PROVISIONER:
            return False
        return allows(storage_class, node.labels)
