"""Fencing: a write made under leadership counts only while that leadership lasts.

    Pilothouse-Fence: kube-system/controller-manager/7

says: I act as the holder of that Lease, in its seventh transition. The write goes through only if the Lease still is in
that transition when the write is made, which the store checks in the write's own transaction. A leader that was paused,
lost its lease and woke up gets 409 ``Fenced``, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.apiserver import codec
from pilothouse.apiserver.catalog import ROOT
from pilothouse.meta import errors

HEADER = "Pilothouse-Fence"


class Fence(msgspec.Struct, frozen=True):
    """The leadership that a write is made under."""

    namespace: str
    lease: str
    transitions: int

    @property
    def key(self) -> str:
        """The store's key of the Lease."""
        return f"{ROOT}coordination.k8s.io/leases/{self.namespace}/{self.lease}"

    def holds(self, lease: bytes) -> bool:
        """Whether the Lease, as stored, still is in the transition that the write was made in."""
        spec = codec.decode(lease).get("spec") or {}
        return (spec.get("leaseTransitions") or 0) == self.transitions

    def broken(self) -> errors.StatusError:
        """The refusal of a write whose leadership is over."""
        return errors.StatusError(
            409,
            "Fenced",
            f"the lease {self.namespace}/{self.lease} has moved on: "
            f"this write was made under its transition {self.transitions}",
            name=self.lease,
            group="coordination.k8s.io",
            kind="leases",
        )


def fence_of(headers: Mapping[str, str]) -> Fence | None:
    """The fence that a request carries, if any; 400 for one that can't be read."""
    text = headers.get(HEADER)
    if text is None:
        return None
    parts = text.strip().split("/")
    if len(parts) != 3 or not parts[0] or not parts[1] or not parts[2].isdecimal() or len(parts[2]) > 10:
        raise errors.bad_request(f"the header {HEADER} must be NAMESPACE/LEASE/TRANSITIONS, not {text!r}")
    return Fence(parts[0], parts[1], int(parts[2]))
