"""Affinity and anti-affinity between pods.

    near = PodAffinityState(pod, places, namespaces)
    list(near.obstacles(place))             # why the pod can't be there
    near.preference(place)

A term selects pods by labels and namespaces; *near* is within the same topology domain: nodes with the same
value of a label. Required anti-affinity is symmetric: an existing pod also keeps away the pods that its own
terms select. The first pod of a group with affinity to itself may go anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.controllers.scheduling.node_info import NodeInfo
from pilothouse.meta.selectors import LabelSelector, SelectorError

Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace."""
Domain = tuple[str, str]
"""A label of nodes, and its value."""

UNLIKE: Final = "node(s) didn't match pod affinity rules"
APART: Final = "node(s) didn't match pod anti-affinity rules"
UNWANTED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class AffinityTerm:
    """One term: which pods it selects, and the topology key."""

    selector: LabelSelector | None
    namespaces: frozenset[str]
    everywhere: LabelSelector | None
    topology: str

    @classmethod
    def of(cls, tree: Mapping[str, Any], pod: Object) -> AffinityTerm:
        """Parse a term of a pod. Raises SelectorError."""
        names = frozenset(tree.get("namespaces") or ())
        chosen = tree.get("namespaceSelector")
        if not names and chosen is None:
            names = frozenset((pod.namespace,))
        return cls(
            selection(tree, pod),
            names,
            None if chosen is None else LabelSelector.from_object(chosen),
            str(tree.get("topologyKey", "")),
        )

    def selects(self, pod: Object, namespaces: Namespaces) -> bool:
        if pod.namespace not in self.namespaces and (
            self.everywhere is None or not self.everywhere.matches(namespaces.get(pod.namespace))
        ):
            return False
        return self.selector is not None and self.selector.matches(pod.labels)

    def domain(self, place: NodeInfo) -> Domain | None:
        value = place.labels.get(self.topology)
        return None if value is None else (self.topology, value)


def selection(tree: Mapping[str, Any], pod: Object) -> LabelSelector | None:
    """The selector of a term or a spread constraint; without one it selects no pods. Raises SelectorError."""
    given = tree.get("labelSelector")
    if given is None:
        return None
    expressions = list(given.get("matchExpressions") or ())
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        expressions += [
            {"key": key, "operator": operator, "values": [pod.labels[key]]}
            for key in tree.get(field) or ()
            if key in pod.labels
        ]
    return LabelSelector.from_object({**given, "matchExpressions": expressions})


class PodAffinityState:
    """The affinity terms between a pod and the existing pods."""

    def __init__(self, pod: Object, places: Sequence[NodeInfo], namespaces: Namespaces) -> None:
        """Raises SelectorError for an invalid term of this pod."""
        self._wanted = terms(pod, "podAffinity")
        self._shunned = terms(pod, "podAntiAffinity")
        self._near: Counter[Domain] = Counter()
        self._apart: Counter[Domain] = Counter()
        self._unwanted: set[Domain] = set()
        self._liked: Counter[Domain] = Counter()
        self._alone = bool(self._wanted) and all(one.selects(pod, namespaces) for one in self._wanted)
        liked = [*preferred(pod, "podAffinity", 1), *preferred(pod, "podAntiAffinity", -1)]
        for place in places:
            for other in place.pods:
                self._count(pod, other, place, liked, namespaces)

    def _count(
        self,
        pod: Object,
        other: Object,
        place: NodeInfo,
        liked: Sequence[tuple[int, AffinityTerm]],
        namespaces: Namespaces,
    ) -> None:
        if self._wanted and all(one.selects(other, namespaces) for one in self._wanted):
            self._near.update(filter(None, (one.domain(place) for one in self._wanted)))
        for term in self._shunned:
            if (domain := term.domain(place)) and term.selects(other, namespaces):
                self._apart[domain] += 1
        for term in _theirs(other, "podAntiAffinity"):
            if (domain := term.domain(place)) and term.selects(pod, namespaces):
                self._unwanted.add(domain)
        for weight, term in liked:
            if (domain := term.domain(place)) and term.selects(other, namespaces):
                self._liked[domain] += weight
        for weight, term in _preferences(other):
            if (domain := term.domain(place)) and term.selects(pod, namespaces):
                self._liked[domain] += weight

    def obstacles(self, place: NodeInfo) -> Iterator[str]:
        """Why the pod can't run there, in Kubernetes' words."""
        if self._wanted and not self._among_its_own(place):
            yield UNLIKE
        elif any(self._apart[domain] for one in self._shunned if (domain := one.domain(place))):
            yield APART
        elif any((key, value) in self._unwanted for key, value in place.labels.items()):
            yield UNWANTED

    def _among_its_own(self, place: NodeInfo) -> bool:
        domains = [one.domain(place) for one in self._wanted]
        if None in domains:
            return False
        if not self._near and self._alone:
            return True
        return all(domain is not None and self._near[domain] for domain in domains)

    def preference(self, place: NodeInfo) -> int:
        """The weights of preferred terms in both directions."""
        return sum(self._liked[domain] for domain in place.labels.items())


def _theirs(other: Object, kind: str) -> list[AffinityTerm]:
    """The required terms of an existing pod."""
    try:
        return terms(other, kind)
    except SelectorError:
        # An invalid term of one pod must not block all others.
        return []


def _preferences(other: Object) -> list[tuple[int, AffinityTerm]]:
    """The preferred terms of an existing pod, and its required affinity."""
    if "affinity" not in other.spec:
        return []
    try:
        return [
            *preferred(other, "podAffinity", 1),
            *preferred(other, "podAntiAffinity", -1),
            *((1, term) for term in terms(other, "podAffinity")),
        ]
    except SelectorError:
        return []


def terms(pod: Object, kind: str) -> list[AffinityTerm]:
    """The required terms of a pod's affinity or anti-affinity."""
    return [AffinityTerm.of(tree, pod) for tree in pod.at("spec", "affinity", kind, _REQUIRED, default=())]


def preferred(pod: Object, kind: str, sign: int) -> list[tuple[int, AffinityTerm]]:
    """The preferred terms and their weights."""
    found = pod.at("spec", "affinity", kind, _PREFERRED, default=())
    return [
        (sign * int(one.get("weight", 0)), AffinityTerm.of(one.get("podAffinityTerm") or {}, pod))
        for one in found
    ]
