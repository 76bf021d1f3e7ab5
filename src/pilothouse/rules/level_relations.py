"""Which objects of one level belong to which of another, as arrays.

    mounts = Relation.of(pairs)                   # pod -> volume
    on_disk = mounts.then(disks)                  # pod -> device
    mounts.reversed()                             # volume -> pod
    spread(joined, mounts, names)                 # samples of pods, as samples of their volumes

The chain is application, workload, pod, volume, then device and storagepool, then node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pilothouse.rules.join import Joined

Positions = NDArray[np.int32]

_CHAIN: Final = ("application", "workload", "pod", "volume")


class Relation(msgspec.Struct, frozen=True):
    """Pairs of positions, each pair once, in the order of their first positions."""

    first: Positions
    second: Positions

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Relation:
        found = np.array(sorted(set(pairs)), dtype=np.int32).reshape(-1, 2)
        return cls(found[:, 0].copy(), found[:, 1].copy())

    def reversed(self) -> Relation:
        order = np.lexsort((self.first, self.second))
        return Relation(self.second[order], self.first[order])

    def then(self, following: Relation) -> Relation:
        """From the first of these to the second of the following."""
        mine, theirs = _matches(self.second, following)
        if not len(mine):
            return Relation(np.empty(0, np.int32), np.empty(0, np.int32))
        pairs = np.unique(np.stack((self.first[mine], following.second[theirs]), axis=1), axis=0)
        return Relation(pairs[:, 0].copy(), pairs[:, 1].copy())

    def of_first(self, position: int) -> list[int]:
        """The second of each pair with this first."""
        start, end = np.searchsorted(self.first, (position, position + 1)).tolist()
        found: list[int] = self.second[start:end].tolist()
        return found


def _matches(wanted: Positions, relation: Relation) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each wanted position and each pair that has it first: the number of the one, and of the other."""
    starts = np.searchsorted(relation.first, wanted, side="left")
    counts = np.searchsorted(relation.first, wanted, side="right") - starts
    mine = np.repeat(np.arange(len(wanted)), counts)
    within = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    return mine, np.repeat(starts, counts) + within


def spread(joined: Joined, to_objects: Relation, names: Sequence[str]) -> Joined:
    """The samples of objects of one level as samples of those of another that lead to them.

    ``to_objects`` is from the level of the samples to the other; ``names`` are of the former.
    """
    mine, theirs = _matches(joined.object_of, to_objects)
    return Joined(
        to_objects.second[theirs],
        joined.values[mine],
        joined.times[mine],
        joined.unmatched,
        joined.object_of[mine],
        names,
        joined.series,
        joined.labels,
        None if joined.numbers is None else joined.numbers[mine],
    )


def path(source: str, target: str) -> tuple[str, ...]:
    """The levels from one to another, both included."""
    if source == target:
        return (source,)
    if source in _CHAIN and target in _CHAIN:
        start, end = _CHAIN.index(source), _CHAIN.index(target)
        return _CHAIN[start : end + 1] if start < end else tuple(reversed(_CHAIN[end : start + 1]))
    if target in _CHAIN:
        return tuple(reversed(path(target, source)))
    if source in _CHAIN:
        # A pod says on which node it runs, whatever it mounts.
        last = "pod" if target == "node" and source != "volume" else "volume"
        return (*path(source, last), target)
    return source, target


def needs_volume_info(source: str, target: str) -> bool:
    """Whether series say which objects of one level belong to those of another."""
    levels = path(source, target)
    return "device" in levels or ("storagepool" in levels and "volume" in levels)
