"""The identity of a node's control plane: the uid of the namespace ``kube-system``, as Kubernetes clusters are identified.

    identity = await read_identity(api)
    identity.uid                                # "5f0c…": of this control plane, and of no other
    identity.may_take("77aa…")                  # whether it may take over volumes of that one

A control plane that was restored from a backup has another uid than the one that the backup is of. Whose volumes it may
take over is an annotation of the namespace, which only administrators write.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.kind_names import Namespace
from pilothouse.api.local_volumes import adopted
from pilothouse.api.objects import Object
from pilothouse.client.api import Api
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.volume_backend import VolumeBackendError

NAMESPACE: Final = "kube-system"
_FORBIDDEN: Final = 403


class ClusterIdentity(msgspec.Struct, frozen=True):
    """A control plane, as its volumes know it."""

    uid: str
    adopts: frozenset[str] = frozenset()
    """The uids of control planes whose volumes it may take over."""

    def may_take(self, uid: str) -> bool:
        return uid == self.uid or uid in self.adopts


async def read_identity(api: Api) -> ClusterIdentity:
    """Asked of the server each time: it may have been restored since. Raises VolumeBackendError, StatusError, TransportError."""
    try:
        found = await api.find(Namespace, NAMESPACE)
    except StatusError as refusal:
        if refusal.code != _FORBIDDEN:
            raise
        raise VolumeBackendError(
            f"the node may not read the namespace {NAMESPACE}, whose uid says which cluster a volume belongs to: "
            "kubectl apply -f examples/kubernetes/node-storage.yaml"
        ) from None
    if found is None:
        raise VolumeBackendError(
            f"the namespace {NAMESPACE}, whose uid says which cluster a volume belongs to, is not there"
        )
    return identity_of(found)


def identity_of(namespace: Object) -> ClusterIdentity:
    """As the namespace ``kube-system`` has it."""
    return ClusterIdentity(namespace.uid, adopted(namespace))
