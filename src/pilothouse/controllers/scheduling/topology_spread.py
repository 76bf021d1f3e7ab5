"""Topology spread constraints: pods spread evenly over zones, nodes or other domains.

    spread = TopologySpread(pod, places)
    list(spread.obstacles(place))           # of DoNotSchedule constraints
    spread.preference(place)                # of ScheduleAnyway constraints; fewer neighbours score higher

The pod may go to a domain whose count of selected pods, with the pod, exceeds the lowest count by at most
``maxSkew``. A domain counts if the pod may run on one of its nodes at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.api.tolerations import forbidding
from pilothouse.controllers.scheduling.node_affinity import admits
from pilothouse.controllers.scheduling.node_info import NodeInfo
from pilothouse.controllers.scheduling.pod_affinity import selection

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
UNLABELLED: Final = f"{UNEVEN} (missing required label)"
_HOST: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class _Constraint:
    topology: str
    skew: int
    counts: Mapping[str, int]
    """The number of pods by domain."""
    itself: int
    """1 if the constraint selects the pod itself."""
    domains: int

    def uneven(self, place: NodeInfo) -> bool:
        emptiest = min(self.counts.values(), default=0) if len(self.counts) >= self.domains else 0
        return self.counts.get(place.labels[self.topology], 0) + self.itself - emptiest > self.skew


class TopologySpread:
    def __init__(self, pod: Object, places: Sequence[NodeInfo]) -> None:
        """Raises SelectorError for an invalid constraint."""
        given = pod.spec.get("topologySpreadConstraints") or ()
        hard = [one for one in given if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
        keys = [str(one.get("topologyKey", "")) for one in hard]
        labelled = [place for place in places if all(key in place.labels for key in keys)]
        self._hard = [_counted(one, pod, labelled) for one in hard]
        self._soft = [
            _counted(one, pod, places) for one in given if one.get("whenUnsatisfiable") == "ScheduleAnyway"
        ]
        owner = pod.controller
        uid = "" if owner is None else str(owner.get("uid", ""))
        self._siblings = _siblings(uid, places) if uid and not given else {}

    def obstacles(self, place: NodeInfo) -> Iterator[str]:
        """Why the pod can't run there, in Kubernetes' words."""
        if any(one.topology not in place.labels for one in self._hard):
            yield UNLABELLED
        elif any(one.uneven(place) for one in self._hard):
            yield UNEVEN

    def preference(self, place: NodeInfo) -> int:
        """Less for each neighbour; by default, for each pod of the same set on the node or in the zone."""
        wished = sum(one.counts.get(place.labels.get(one.topology, ""), 0) for one in self._soft)
        siblings = 2 * self._siblings.get((_HOST, place.name), 0)
        siblings += self._siblings.get((_ZONE, place.labels.get(_ZONE, "")), 0)
        return -(wished + siblings)


def _counted(tree: Mapping[str, Any], pod: Object, places: Sequence[NodeInfo]) -> _Constraint:
    topology = str(tree.get("topologyKey", ""))
    selector = selection(tree, pod)
    counts: dict[str, int] = {}
    for place in places:
        domain = place.labels.get(topology)
        if domain is None or not _counts(tree, pod, place):
            continue
        counts[domain] = counts.get(domain, 0) + sum(
            other.namespace == pod.namespace
            and not other.deleting
            and selector is not None
            and selector.matches(other.labels)
            for other in place.pods
        )
    itself = int(selector is not None and selector.matches(pod.labels))
    return _Constraint(
        topology, int(tree.get("maxSkew", 1)), counts, itself, int(tree.get("minDomains") or 1)
    )


def _counts(tree: Mapping[str, Any], pod: Object, place: NodeInfo) -> bool:
    """True if the constraint takes a node into account."""
    if tree.get("nodeAffinityPolicy", "Honor") == "Honor" and not admits(pod, place.node):
        return False
    return tree.get("nodeTaintsPolicy", "Ignore") == "Ignore" or not any(forbidding(pod, place.node))


def _siblings(owner: str, places: Sequence[NodeInfo]) -> Counter[tuple[str, str]]:
    """How many pods of the same owner there are on each node and in each zone."""
    found: Counter[tuple[str, str]] = Counter()
    for place in places:
        count = sum((other.controller or {}).get("uid") == owner for other in place.pods)
        found[_HOST, place.name] += count
        if zone := place.labels.get(_ZONE):
            found[_ZONE, zone] += count
    return found
