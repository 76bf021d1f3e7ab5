"""Labels and annotations of claims and volumes on a node's own storage; Kubernetes' names where it has them.

Node agents write them, the API server checks them.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import parse_time

DIRECTORY: Final = "pilothouse.io/directory"
LOOP: Final = "pilothouse.io/loop"
PROVISIONERS: Final = frozenset({DIRECTORY, LOOP})
"""The provisioners that every node runs."""

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
ASKED_FOR: Final = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
NODE: Final = "pilothouse.io/node"
"""The annotation of a volume with its node."""
FINALIZER: Final = "pilothouse.io/volume"
"""Keeps a volume's object until its data is deleted, or is known to stay."""

ADOPTS_VOLUMES_OF: Final = "pilothouse.io/adopts-volumes-of"
"""The annotation of the namespace kube-system with the comma-separated uids of control planes whose volumes
this one takes over."""

RESTORED_FROM: Final = "pilothouse.io/restored-from"
"""The annotation of the namespace kube-system with the uid of the control plane whose backup this one was
restored from."""
RESTORED_AT: Final = "pilothouse.io/restored-at"
"""The annotation of the namespace kube-system that says when that was."""

PROVISIONED: Final = "pilothouse.io/Provisioned"
"""The condition of a claim that, while False, says why the chosen node can't create its volume."""

VOLUME_MOVE: Final = "pilothouse.io/VolumeMove"
"""The condition of a claim whose volume is moved to another tier of its node. With the reason
``AwaitingRestart`` the node waits until no pod uses the volume."""
AWAITING_RESTART: Final = "AwaitingRestart"
AWAITING_READY: Final = "AwaitingReady"
"""Its reason after the switch, until a pod has been ready on the copy."""
KEPT: Final = "Kept"
"""Its reason from then on, while the old copy is kept."""
FAILED: Final = "Failed"
"""Its reason, while False, when a step failed that the node retries."""
RETURNED: Final = "Returned"
"""Its reason, while False, after no pod became ready in time and the volume has gone back."""
MOVE_KEEP: Final = "pilothouse.io/move-keep"
"""The annotation of a claim that says how long its pod has to be ready before the old copy is removed."""


def volume_name(claim_uid: str) -> str:
    """The name of a claim's volume, as provisioners build it."""
    return f"pvc-{claim_uid}"


def adopted(kube_system: Object) -> frozenset[str]:
    """The uids of the control planes whose volumes this one takes over."""
    uids = str(kube_system.annotations.get(ADOPTS_VOLUMES_OF) or "").split(",")
    return frozenset(filter(None, map(str.strip, uids)))


def original_of(volume: Object, kube_system: Object) -> str:
    """The uid of the control plane that a volume belongs to, if this one was restored from a backup of it and
    does not take over its volumes; else empty."""
    original = str(kube_system.annotations.get(RESTORED_FROM) or "")
    restored = str(kube_system.annotations.get(RESTORED_AT) or "")
    if not original or not restored or original in adopted(kube_system):
        return ""
    ours = volume.annotations.get(PROVISIONED_BY) in PROVISIONERS
    return original if ours and volume.created <= parse_time(restored) else ""
