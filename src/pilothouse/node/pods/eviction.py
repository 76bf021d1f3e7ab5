"""Chooses the pod to evict under memory or disk pressure.

    choose_victim([EvictionCandidate("a", request=0, usage=900_000_000)], shortage)

The pod that exceeds its request by most goes first, unless another has more files than can be counted, which
may hide its usage. A pod that uses little of the missing resource is never evicted. Kubelet ranks by priority
too; here all pods have the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.containers.resource_limits import container_limits
from pilothouse.node.machine.node_conditions import ResourcePressure

WORTH_IT: Final = 0.1
"""The share of the missing amount that evicting one pod must free."""
_LEAST: Final = {"memory": 2**20, "ephemeral-storage": 2**20, "inodes": 1000}
"""The least that evicting a pod must free, however little is missing."""


class EvictionCandidate(msgspec.Struct, frozen=True):
    uid: str
    request: int
    """The sum of its containers' requests."""
    usage: int
    """Their usage: of memory the working set, of the disk everything but their claims."""
    unmeasured: bool = False
    """Whether the pod has more files than can be counted."""


def choose_victim(
    candidates: Iterable[EvictionCandidate], shortage: ResourcePressure
) -> EvictionCandidate | None:
    """The pod to evict; None if no eviction would help."""
    least = max(_LEAST[shortage.resource], shortage.missing * WORTH_IT)
    using = [each for each in candidates if each.usage >= least or each.unmeasured]
    if not using:
        return None

    def rank(each: EvictionCandidate) -> tuple[bool, bool, int, str]:
        return each.unmeasured, each.usage > each.request, each.usage - each.request, each.uid

    return max(using, key=rank)


def memory_request(pod: Object) -> int:
    limits = (container_limits(each, pids=None) for each in pod.spec.get("containers") or ())
    return sum(each.memory_request or 0 for each in limits)


def eviction_message(candidate: EvictionCandidate, shortage: ResourcePressure) -> str:
    """The message of the eviction, as kubelet words it."""
    low = f"The node was low on resource: {shortage.resource}. {shortage.message}."
    if shortage.resource == "inodes":
        return f"{low} Pod was using {candidate.usage}."
    used, asked = candidate.usage // 2**20, candidate.request // 2**20
    return f"{low} Pod was using {used}Mi, request is {asked}Mi."
