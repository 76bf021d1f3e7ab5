"""The heartbeat of a machine of the control plane: a Lease that its controller-manager renews."""

from __future__ import annotations

from typing import Final

LEASE_NAMESPACE: Final = "kube-node-lease"
_PREFIX: Final = "k0s-ctrl-"


def control_node_lease(control_node: str) -> str:
    """The name of the Lease of a ControlNode."""
    return _PREFIX + control_node
