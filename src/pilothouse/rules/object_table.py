"""The objects of one level in a fixed order: which of them rules select, and where they were before a change.

table = ObjectTable.of_claims(claims, pods)
table.selected(selection, namespaces.get)     # a boolean for each object
here, there = table.moved_from(earlier)       # positions of the objects that are in both
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pilothouse.api.objects import Object
from pilothouse.rules.action_targets import capacity_of
from pilothouse.rules.join import ObjectIndex
from pilothouse.rules.object_types import full_name, is_present
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.verdicts import Bools

Positions = NDArray[np.intp]
NamespaceOf = Callable[[str], Object | None]

_LARGEST: Final = 2**63 - 1


class ObjectTable:
    """The objects of a level, in a fixed order."""

    def __init__(
        self, objects: Sequence[Object], index: ObjectIndex, names: Sequence[str] | None = None
    ) -> None:
        """``names`` are for people; by default those of the objects."""
        self.objects = objects
        self.index = index
        self.position = {one.uid: number for number, one in enumerate(objects)}
        self.present: Bools = np.fromiter(map(is_present, objects), np.bool_, len(objects))
        self._names = names
        self._selected: dict[RuleSelection, Bools] = {}
        self._capacity: NDArray[np.int64] | None = None
        self._moved: tuple[ObjectTable, Positions, Positions] | None = None

    @classmethod
    def of_claims(cls, claims: Sequence[Object], pods: Iterable[Object] = ()) -> ObjectTable:
        return cls(claims, ObjectIndex.of_claims(claims, pods))

    @property
    def level(self) -> str:
        return self.index.level

    @property
    def names(self) -> Sequence[str]:
        """For people, by position; made when they are first asked for."""
        if self._names is None:
            self._names = [full_name(one) for one in self.objects]
        return self._names

    def moved_from(self, earlier: ObjectTable) -> tuple[Positions, Positions]:
        """The positions here, and those in an earlier table, of the objects that are in both."""
        if self._moved is None or self._moved[0] is not earlier:
            both = [
                (position, earlier.position[uid])
                for uid, position in self.position.items()
                if uid in earlier.position
            ]
            here, there = np.array(both, dtype=np.intp).reshape(-1, 2).T
            self._moved = earlier, here, there
        return self._moved[1:]

    @property
    def capacity(self) -> NDArray[np.int64]:
        """Of claims, in bytes; read when it is first asked for."""
        if self._capacity is None:
            self._capacity = np.fromiter(map(_capacity, self.objects), np.int64, len(self.objects))
        return self._capacity

    def resized(self, claim: Object) -> None:
        """Note the size of a claim that has changed."""
        position = self.position.get(claim.uid)
        if position is not None and self._capacity is not None:
            self._capacity[position] = _capacity(claim)

    def __len__(self) -> int:
        return len(self.index)

    def selected(self, selection: RuleSelection, namespace_of: NamespaceOf) -> Bools:
        """Which of the objects that rules look at these selectors select."""
        if (known := self._selected.get(selection)) is not None:
            return known
        found = self.present.copy()
        if selection.objects is not None or selection.namespaces is not None:
            matches = (selection.matches(one, namespace_of(one.namespace)) for one in self.objects)
            found &= np.fromiter(matches, np.bool_, len(self.objects))
        self._selected[selection] = found
        return found


def _capacity(claim: Object) -> int:
    try:
        return min(capacity_of(claim), _LARGEST)
    except ValueError:
        return 0
