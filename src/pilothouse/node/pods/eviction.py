"""Who has to go when the machine's memory or disk runs short.

    choose_victim([EvictionCandidate("a", request=0, usage=900_000_000), EvictionCandidate("b", request=2**30, usage=2**29)], shortage)   # "a"

One at a time, and then another look, once what it had is free: who uses most beyond what it asked for. A pod that keeps to what it asked
for goes only when nobody uses more than that. Nobody goes whose end would not help: a pod that has little of what is missing stays, even if
it has most of all pods. One that has more files than can be counted goes first: it would else hide behind them. Kubelet ranks by priority too; here no pod has any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.containers.resource_limits import limits_of
from pilothouse.node.machine.node_conditions import ResourcePressure

WORTH_IT: Final = 0.1
"""The share of what is missing that the end of one pod has to bring."""
_LEAST: Final = {"memory": 2**20, "ephemeral-storage": 2**20, "inodes": 1000}
"""However little is missing: every pod has some, for its records."""


class EvictionCandidate(msgspec.Struct, frozen=True):
    """A pod that runs."""

    uid: str
    request: int
    """How much of it its containers ask for."""
    usage: int
    """How much they use: of memory without what would be given up first, of the disk all that they have beside their claims."""
    unmeasured: bool = False
    """Whether there is more than can be counted."""


def choose_victim(
    candidates: Iterable[EvictionCandidate], shortage: ResourcePressure
) -> EvictionCandidate | None:
    """None if nobody uses so much that its end would help."""
    least = max(_LEAST[shortage.resource], shortage.missing * WORTH_IT)
    using = [each for each in candidates if each.usage >= least or each.unmeasured]
    if not using:
        return None
    return max(
        using,
        key=lambda each: (each.unmeasured, each.usage > each.request, each.usage - each.request, each.uid),
    )


def memory_request(pod: Object) -> int:
    """What its containers ask for together."""
    return sum(limits_of(each, pids=None).memory_request or 0 for each in pod.spec.get("containers") or ())


def eviction_message(candidate: EvictionCandidate, shortage: ResourcePressure) -> str:
    """Why it had to go."""
    low = f"The node was low on resource: {shortage.resource} ({shortage.message})."
    if shortage.resource == "inodes":
        return f"{low} The pod had {candidate.usage} files."
    used, asked = candidate.usage // 2**20, candidate.request // 2**20
    return f"{low} The pod used {used}Mi and had asked for {asked}Mi."
