"""The leadership that a write is made under.

    await api.update(Pod, pod, fence=LeadershipFence("kube-system", "controller-manager", 7, lease.uid))

Our server refuses the write (409, ``Fenced``) once the Lease is in another transition. Other servers ignore
the header; there ``left``, the rest of the term, limits every attempt (``retries``).
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
