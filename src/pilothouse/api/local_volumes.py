"""Labels and annotations of claims and volumes on a node's own storage; Kubernetes' names where it has them.

Node agents write them, the API server checks them.
"""

from __future__ import annotations

from typing import Final

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

PROVISIONED: Final = "pilothouse.io/Provisioned"
"""The condition of a claim that, while False, says why the chosen node can't create its volume."""


def volume_name(claim_uid: str) -> str:
    """The name of a claim's volume, as provisioners build it."""
    return f"pvc-{claim_uid}"
