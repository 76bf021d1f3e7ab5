"""Fencing: a write made under leadership succeeds only while that leadership lasts.

    Pilothouse-Fence: kube-system/controller-manager/7/0f6a8f5e-6a53-4d59-8a3e-2a4b8a6d3f10

The writer holds that Lease in its seventh transition. The store checks this in the write's own transaction; a
leader that has lost its lease gets 409 ``Fenced``. The optional uid tells a Lease from a later one of the
same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.storage import codec
from pilothouse.meta import errors

HEADER = "Pilothouse-Fence"
_FORM = re.compile(r"([^/]+)/([^/]+)/([0-9]{1,10})(?:/([0-9a-f-]{36}))?")


class WriteFence(msgspec.Struct, frozen=True):
    """The leadership that a write is made under."""

    namespace: str
    lease: str
    transitions: int
    uid: str = ""
    """Of the Lease; empty for whichever has the name."""

    @property
    def key(self) -> str:
        return f"{ROOT}coordination.k8s.io/leases/{self.namespace}/{self.lease}"

    def holds(self, lease: bytes) -> bool:
        """Whether the stored Lease is still in the write's transition."""
        live = codec.decode(lease)
        if self.uid and live["metadata"].get("uid") != self.uid:
            return False
        return ((live.get("spec") or {}).get("leaseTransitions") or 0) == self.transitions

    def broken(self) -> errors.StatusError:
        return errors.StatusError(
            409,
            "Fenced",
            f"the lease {self.namespace}/{self.lease} has moved on: "
            f"this write was made under its transition {self.transitions}",
            name=self.lease,
            group="coordination.k8s.io",
            kind="leases",
        )


def fence_of(headers: Mapping[str, str]) -> WriteFence | None:
    """The fence of a request, if any; 400 for a malformed one."""
    text = headers.get(HEADER)
    if text is None:
        return None
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise errors.bad_request(
            f"the header {HEADER} must be NAMESPACE/LEASE/TRANSITIONS or NAMESPACE/LEASE/TRANSITIONS/UID, "
            f"not {text!r}"
        )
    namespace, lease, transitions, uid = match.groups()
    return WriteFence(namespace, lease, int(transitions), uid or "")
