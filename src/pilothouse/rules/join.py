"""Samples are joined to objects by the labels of their series.

    index = ObjectIndex.of_claims(claims, pods)
    joined = join(samples, index)
    joined.values[joined.object_of == 3]        # of the fourth claim

Of volumes, the most specific label that a series carries decides, and the others are not looked at. Of other
levels, the first label that names a known object decides:

    volume         volumename; namespace, persistentvolumeclaim; namespace, pod (every claim that it mounts);
                   node (every claim that is mounted there)
    pod            namespace, pod; namespace, persistentvolumeclaim (every pod that mounts it); node
    workload       namespace, statefulset; namespace, deployment; namespace, pod; namespace,
                   persistentvolumeclaim
    application    namespace, cluster; then as a workload
    device         device, and node or instance
    storagepool    pool
    node           node

``JoinLabels`` says by which names these are looked for.

The series of a poll are mostly those of the last one, and those of one expression mostly those of another. So
an index remembers which objects the last few lists of series were about, and looks at each label again only
when they change.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pilothouse.api.objects import Object
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels, SeriesKey, level_keys, object_key
from pilothouse.rules.samples import Sample

_MOST_REMEMBERED: Final = 8
"""Lists of series, of each level."""
_LABELS, _VALUE, _TIME = attrgetter("labels"), attrgetter("value"), attrgetter("time")

Places = Mapping[SeriesKey, Sequence[int]]
"""The positions of the objects that a series with this key is about."""


class Joined(msgspec.Struct, frozen=True):
    """The samples of objects, in the order of the series; an object may have none or several."""

    object_of: NDArray[np.int32]
    """The position in the index of the object of each value."""
    values: NDArray[np.float64]
    times: NDArray[np.float64]
    """When each was measured, in seconds since 1970."""
    unmatched: int
    """How many series carry none of the labels."""
    seen_at: NDArray[np.int32] | None = None
    """Where a value is of an object of another level, the position of that object; None if none is."""
    names: Sequence[str] = ()
    """The names of the objects of that level."""
    series: int = 0
    """How many series there were."""
    labels: Sequence[Mapping[str, str]] = ()
    """Those of every series."""
    numbers: NDArray[np.int64] | None = None
    """Which series each value is of."""

    def labels_of(self, value: int) -> Mapping[str, str]:
        """The labels of a value's series; none if they are not known."""
        return {} if self.numbers is None else self.labels[self.numbers[value]]

    def several(self, objects: int) -> NDArray[np.int64]:
        """Which of so many objects have more than one series."""
        return np.flatnonzero(np.bincount(self.object_of, minlength=objects) > 1)


class MatchedSeries(msgspec.Struct, frozen=True):
    """Which objects the series of an answer are about."""

    labels: JoinLabels
    series: Sequence[Mapping[str, str]]
    """Their labels."""
    object_of: NDArray[np.int32]
    chosen: NDArray[np.int64]
    """The numbers of the series, one for each element of ``object_of``."""
    unmatched: int


class ObjectIndex:
    """Objects in a fixed order, found by what series call them. Position = number of the object."""

    def __init__(self, objects: Sequence[Object], places: Places, level: str = "volume") -> None:
        self.objects = objects
        self.places = places
        self.level = level
        self._matched: list[MatchedSeries] = []
        """The lists of series that were matched last, the latest first."""

    def matched(self, series: Sequence[Mapping[str, str]], labels: JoinLabels) -> MatchedSeries:
        """Which objects these series are about."""
        for number, known in enumerate(self._matched):
            if known.labels == labels and known.series == series:
                self._matched.insert(0, self._matched.pop(number))
                return known
        object_of, kept = array("i"), array("q")
        find = _volumes if self.level == "volume" else _first_known
        unmatched = find(series, self, labels, object_of, kept)
        positions = np.frombuffer(object_of, dtype=np.int32) if object_of else np.empty(0, np.int32)
        chosen = np.frombuffer(kept, dtype=np.int64) if kept else np.empty(0, np.int64)
        for shared in (positions, chosen):
            shared.flags.writeable = False
        found = MatchedSeries(labels, series, positions, chosen, unmatched)
        self._matched = [found, *self._matched[: _MOST_REMEMBERED - 1]]
        return found

    def __len__(self) -> int:
        return len(self.objects)

    @classmethod
    def of_claims(cls, claims: Sequence[Object], pods: Iterable[Object] = ()) -> ObjectIndex:
        """Claims, and the pods that mount them: without pods, no series is joined by pod or node."""
        places: dict[SeriesKey, Sequence[int]] = {}
        for position, claim in enumerate(claims):
            places["claim", claim.namespace, claim.name] = (position,)
            # Until it is bound, a claim only asks for a volume, which may be another's.
            if (volume := claim.spec.get("volumeName")) and claim.at("status", "phase") == "Bound":
                places["volume", volume] = (position,)
        on_node: dict[str, dict[int, None]] = defaultdict(dict)
        for pod in pods:
            keys = [("claim", *key) for key in mounted_claims(pod)]
            mounted = [position for key in keys for position in places.get(key, ())]
            if mounted:
                places["pod", pod.namespace, pod.name] = mounted
                on_node[pod.spec.get("nodeName") or ""].update(dict.fromkeys(mounted))
        places |= {("node", node): tuple(mounted) for node, mounted in on_node.items() if node}
        return cls(claims, places)


def mounted_claims(pod: Object) -> list[tuple[str, str]]:
    """Namespace and name of each claim that a pod mounts."""
    found: list[tuple[str, str]] = []
    volumes: Any = pod.spec.get("volumes") or ()
    for volume in volumes:
        if source := volume.get("persistentVolumeClaim"):
            found.append((pod.namespace, source.get("claimName", "")))
        elif "ephemeral" in volume:
            found.append((pod.namespace, f"{pod.name}-{volume['name']}"))
    return found


def join(samples: Sequence[Sample], index: ObjectIndex, labels: JoinLabels = DEFAULT_LABELS) -> Joined:
    """The samples of the objects in the index; those of other objects are left out."""
    found = index.matched(list(map(_LABELS, samples)), labels)
    values = np.fromiter(map(_VALUE, samples), np.float64, len(samples))
    times = np.fromiter(map(_TIME, samples), np.float64, len(samples))
    chosen = found.chosen
    return Joined(
        found.object_of,
        values[chosen],
        times[chosen],
        found.unmatched,
        series=len(samples),
        labels=found.series,
        numbers=chosen,
    )


def _volumes(
    series: Sequence[Mapping[str, str]],
    index: ObjectIndex,
    labels: JoinLabels,
    object_of: array[int],
    kept: array[int],
) -> int:
    """Add the positions and the numbers of the series; how many series carry none of the labels."""
    places, unmatched = index.places, 0
    for number, each in enumerate(series):
        key = object_key(each, labels)
        if key is None:
            unmatched += 1
            continue
        for position in places.get(key, ()):
            object_of.append(position)
            kept.append(number)
    return unmatched


def _first_known(
    series: Sequence[Mapping[str, str]],
    index: ObjectIndex,
    labels: JoinLabels,
    object_of: array[int],
    kept: array[int],
) -> int:
    """The same for other levels, whose series may name a known object by several labels."""
    places, unmatched = index.places, 0
    for number, each in enumerate(series):
        keys = level_keys(index.level, each, labels)
        unmatched += not keys
        for position in next((found for key in keys if (found := places.get(key))), ()):
            object_of.append(position)
            kept.append(number)
    return unmatched
