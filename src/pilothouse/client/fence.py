"""The leadership that a write is made under.

    await api.update(Pod, pod, fence=LeadershipFence("kube-system", "controller-manager", 7, lease.uid))

Our server refuses the write (409, reason ``Fenced``) once the Lease has moved on to another transition, or is another one. A server that does
not know the header ignores it; there the leader's own deadline is what keeps it from writing late (see ``leases``): ``left``
is asked before each attempt, and no attempt is waited for any longer (``retrying``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

HEADER = "Pilothouse-Fence"
FENCED = "Fenced"
"""The reason of the refusal."""


def always() -> float:
    """A term without end."""
    return math.inf


@dataclass(frozen=True, slots=True)
class LeadershipFence:
    """A Lease in one of its transitions."""

    namespace: str
    lease: str
    transitions: int
    uid: str = ""
    """The Lease's: one that is made after it was deleted counts its transitions from the beginning."""
    left: Callable[[], float] = field(default=always, compare=False, repr=False)
    """For how many seconds the term still lasts, by the holder's own clock; renewals make it more."""

    def __str__(self) -> str:
        """As the header says it."""
        text = f"{self.namespace}/{self.lease}/{self.transitions}"
        return f"{text}/{self.uid}" if self.uid else text
