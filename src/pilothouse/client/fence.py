"""The leadership that a write is made under.

    await api.update(Pod, pod, fence=Fence("kube-system", "controller-manager", 7))

Our server refuses the write (409, reason ``Fenced``) once the Lease has moved on to another transition. A server that does
not know the header ignores it; there the leader's own deadline is what keeps it from writing late (see ``leases``).
"""

from __future__ import annotations

from dataclasses import dataclass

HEADER = "Pilothouse-Fence"
FENCED = "Fenced"
"""The reason of the refusal."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A Lease in one of its transitions."""

    namespace: str
    lease: str
    transitions: int

    def __str__(self) -> str:
        """As the header says it."""
        return f"{self.namespace}/{self.lease}/{self.transitions}"
