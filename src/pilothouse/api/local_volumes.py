"""The marks by which claims and volumes of a node's own storage are known: node agents write them, the API server checks them.

A claim says where its volume is wanted, and of whom; a volume says on which node it is, and who made it. Kubernetes' own names
where it has them.
"""

from __future__ import annotations

from typing import Final

DIRECTORY: Final = "pilothouse.io/directory"
LOOP: Final = "pilothouse.io/loop"
PROVISIONERS: Final = frozenset({DIRECTORY, LOOP})
"""Those that every node is."""

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
ASKED_FOR: Final = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
NODE: Final = "pilothouse.io/node"
"""The annotation of a volume that says on which node it is."""
FINALIZER: Final = "pilothouse.io/volume"
"""Keeps a volume's object until its data is gone, or is known to stay."""

ADOPTS_VOLUMES_OF: Final = "pilothouse.io/adopts-volumes-of"
"""The annotation of the namespace kube-system with the uids, separated by commas, of control planes whose volumes this one takes over."""

PROVISIONED: Final = "pilothouse.io/Provisioned"
"""The condition of a claim that, while it is False, says why the node that was chosen can't make its volume."""


def volume_name(claim_uid: str) -> str:
    """What the volume of a claim is called, as every provisioner calls it."""
    return f"pvc-{claim_uid}"
