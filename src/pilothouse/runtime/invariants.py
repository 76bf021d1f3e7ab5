"""What a controller promises about the world, whatever goes wrong: said beside it, held against it by the simulator.

    @invariant(Namespace)
    def a_namespace_goes_when_it_is_empty(facts: ObjectStates, before: Object | None, after: Object | None) -> str | None:
        if before is not None and after is None and (left := facts.within(before.name)):
            return f"{before.name} went while there still was {left[0]!r}"
        return None

A promise is judged after every write to a kind that it names, and of all objects of these kinds when everything has been started anew, by what *is* in the store, whoever wrote it: so it does not
matter who believes what. It says in a sentence what must not be, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object


class ObjectStates(Protocol):
    """Everything that is, and a little of what was."""

    def all(self, noun: KindName, namespace: str = "") -> Sequence[Object]: ...

    def find(self, noun: KindName, namespace: str, name: str) -> Object | None: ...

    def of(self, uid: str) -> Object | None:
        """The object of this uid, if it is still there."""
        ...

    def within(self, namespace: str) -> Sequence[Object]:
        """Everything in a namespace."""
        ...

    def once_ready(self, uid: str) -> Sequence[str]:
        """The names of all that this object controlled and that were ever ready."""
        ...

    def unready_for(self, uid: str) -> float:
        """Seconds for which no pod beneath this object has been ready; infinite if none has been since the last start of everything."""
        ...


Check = Callable[[ObjectStates, Object | None, Object | None], str | None]
"""Given the facts, and what has just changed, before and after; a sentence if it must not be."""


@dataclass(frozen=True)
class Invariant:
    """What holds after every write to these kinds; of none, to any."""

    name: str
    check: Check
    nouns: tuple[KindName, ...] = ()


def invariant(*nouns: KindName) -> Callable[[Check], Invariant]:
    """Make a promise of a function; its name is the function's."""
    return lambda check: Invariant(check.__name__.replace("_", " "), check, nouns)
