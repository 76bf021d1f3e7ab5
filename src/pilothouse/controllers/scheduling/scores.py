"""Scores: which of the feasible nodes is best.

    best(pod, places, neighbours, spread)       # the NodeInfo; the first by name among equals

Each score is normalized to 0 to 100 and weighted as in Kubernetes: preferred node affinity, preferred pod
affinity in both directions, ``PreferNoSchedule`` taints, even spread, and low and balanced use of resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pilothouse.api.objects import Object
from pilothouse.api.tolerations import discouraging
from pilothouse.controllers.scheduling.node_affinity import preference
from pilothouse.controllers.scheduling.node_info import NodeInfo
from pilothouse.controllers.scheduling.pod_affinity import PodAffinityState
from pilothouse.controllers.scheduling.resource_requests import Amounts, allocatable, amounts, requested
from pilothouse.controllers.scheduling.topology_spread import TopologySpread

_TAINTS: Final = 3
_AFFINITY: Final = 2
_NEIGHBOURS: Final = 2
_SPREAD: Final = 2
_USE: Final = 1
_GUESSED: Final = amounts({"cpu": "100m", "memory": "200Mi"})
"""The assumed use of a pod without requests, so that such pods don't pile up."""


def best(pod: Object, places: Sequence[NodeInfo], near: PodAffinityState, spread: TopologySpread) -> NodeInfo:
    wishes = (
        (_TAINTS, [-discouraging(pod, place.node) for place in places]),
        (_AFFINITY, [preference(pod, place.node) for place in places]),
        (_NEIGHBOURS, [near.preference(place) for place in places]),
        (_SPREAD, [spread.preference(place) for place in places]),
    )
    its = requested(pod)
    totals = [_USE * _room(its, place) for place in places]
    for weight, wish in wishes:
        for index, points in enumerate(_scaled(wish)):
            totals[index] += weight * points
    return max(zip(totals, places, strict=True), key=lambda one: one[0])[1]


def _scaled(points: Sequence[int]) -> list[float]:
    """From 0 for the least to 100 for the most; 0 if all are the same."""
    least, most = min(points), max(points)
    if least == most:
        return [0.0] * len(points)
    return [100 * (one - least) / (most - least) for one in points]


def _room(its: Amounts, place: NodeInfo) -> float:
    """How much is left with these requests added (0 to 100), and how balanced (0 to 100)."""
    there = allocatable(place.node)
    shares = []
    for name in _GUESSED:
        total = there.get(name, 0)
        if total > 0:
            used = sum(one.get(name) or _GUESSED[name] for one in (*place.asked, its))
            shares.append(min(1.0, used / total))
    if not shares:
        return -float(len(place.pods))
    left = 100 * (1 - sum(shares) / len(shares))
    return left + 100 * (1 - (max(shares) - min(shares)) / 2)
