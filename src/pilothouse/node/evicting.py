"""Who has to go when the machine's memory or disk runs short.

victim([Candidate(uid="a", request=0, usage=900_000_000), Candidate(uid="b", request=2**30, usage=2**29)])   # "a"

One at a time, and then another look: who uses most beyond what it asked for. A pod that keeps to what it asked for goes only when nobody
uses more than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.limits import limits_of

WORTH_IT: Final = 2**20
"""Bytes. Every pod has some on the disk, for its records."""


class Candidate(msgspec.Struct, frozen=True):
    """A pod that runs."""

    uid: str
    request: int
    """Bytes of it that its containers ask for."""
    usage: int
    """Bytes that they use, of memory without what would be given up first."""


def victim(candidates: Iterable[Candidate]) -> Candidate | None:
    """None if nobody uses so much that its end would help."""
    using = [each for each in candidates if each.usage >= WORTH_IT]
    if not using:
        return None
    return max(using, key=lambda each: (each.usage > each.request, each.usage - each.request, each.uid))


def memory_request(pod: Object) -> int:
    """What its containers ask for together."""
    return sum(limits_of(each, pids=None).memory_request or 0 for each in pod.spec.get("containers") or ())


def sentence(candidate: Candidate, resource: str, shortage: str) -> str:
    """Why it had to go."""
    used, asked = candidate.usage // 2**20, candidate.request // 2**20
    return f"The node was low on resource: {resource} ({shortage}). The pod used {used}Mi and had asked for {asked}Mi."
