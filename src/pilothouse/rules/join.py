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
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pilothouse.api.objects import Object
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels, SeriesKey, level_keys, object_key
from pilothouse.rules.samples import Sample

Places = Mapping[SeriesKey, Sequence[int]]
"""The positions of the objects that a series with this key is about."""

MOST_NAMED: Final = 10_000
"""Of how many values the labels are kept."""


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
    """Those of each value's series; none if there are many values."""

    def several(self, objects: int) -> NDArray[np.int64]:
        """Which of so many objects have more than one series."""
        return np.flatnonzero(np.bincount(self.object_of, minlength=objects) > 1)


class ObjectIndex:
    """Objects in a fixed order, found by what series call them. Position = number of the object."""

    def __init__(self, objects: Sequence[Object], places: Places, level: str = "volume") -> None:
        self.objects = objects
        self.places = places
        self.level = level

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
    object_of, kept = array("i"), array("q")
    find = _volumes if index.level == "volume" else _first_known
    unmatched = find(samples, index, labels, object_of, kept)
    chosen = np.frombuffer(kept, dtype=np.int64) if kept else np.empty(0, np.int64)
    values = np.fromiter((sample.value for sample in samples), np.float64, len(samples))
    times = np.fromiter((sample.time for sample in samples), np.float64, len(samples))
    positions = np.frombuffer(object_of, dtype=np.int32) if object_of else np.empty(0, np.int32)
    named: Sequence[Mapping[str, str]] = ()
    if len(kept) <= MOST_NAMED:
        named = [samples[number].labels for number in kept]
    return Joined(positions, values[chosen], times[chosen], unmatched, series=len(samples), labels=named)


def _volumes(
    samples: Sequence[Sample], index: ObjectIndex, labels: JoinLabels, object_of: array[int], kept: array[int]
) -> int:
    """Add the positions and the numbers of the samples; how many series carry none of the labels."""
    places, unmatched = index.places, 0
    for number, sample in enumerate(samples):
        key = object_key(sample.labels, labels)
        if key is None:
            unmatched += 1
            continue
        for position in places.get(key, ()):
            object_of.append(position)
            kept.append(number)
    return unmatched


def _first_known(
    samples: Sequence[Sample], index: ObjectIndex, labels: JoinLabels, object_of: array[int], kept: array[int]
) -> int:
    """The same for other levels, whose series may name a known object by several labels."""
    places, unmatched = index.places, 0
    for number, sample in enumerate(samples):
        keys = level_keys(index.level, sample.labels, labels)
        unmatched += not keys
        for position in next((found for key in keys if (found := places.get(key))), ()):
            object_of.append(position)
            kept.append(number)
    return unmatched
