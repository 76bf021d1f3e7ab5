"""Invariants of a controller: what holds in the store, whatever fails. The simulator checks them.

    @invariant(Namespace)
    def a_namespace_goes_when_it_is_empty(facts, before, after):
        if before is not None and after is None and (left := facts.within(before.name)):
            return f"{before.name} went while there still was {left[0]!r}"
        return None

An invariant is checked against the store after every write to its kinds, by whichever process, and on all
their objects after a restart of everything. It returns what is wrong, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object


class ObjectStates(Protocol):
    """The stored objects, and a little of their history."""

    def all(self, noun: KindName, namespace: str = "") -> Sequence[Object]: ...

    def find(self, noun: KindName, namespace: str, name: str) -> Object | None: ...

    def of(self, uid: str) -> Object | None:
        """The object of this uid, if it still exists."""
        ...

    def within(self, namespace: str) -> Sequence[Object]:
        """All objects in a namespace."""
        ...

    def once_ready(self, uid: str) -> Sequence[str]:
        """The names of the objects that this one controls or controlled and that were ever ready."""
        ...

    def unready_for(self, uid: str) -> float:
        """Seconds for which no pod below this object has been ready; infinite if none was since a restart."""
        ...


Check = Callable[[ObjectStates, Object | None, Object | None], str | None]
"""Takes the stored objects and the changed one, before and after; returns what is wrong."""


@dataclass(frozen=True)
class Invariant:
    """What holds after every write to these kinds; without kinds, after every write."""

    name: str
    check: Check
    nouns: tuple[KindName, ...] = ()


def invariant(*nouns: KindName) -> Callable[[Check], Invariant]:
    """Make an invariant of a function; its name is the function's."""
    return lambda check: Invariant(check.__name__.replace("_", " "), check, nouns)
