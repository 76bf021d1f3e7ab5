"""How a controller says what it decides about and what it looks at.

    @controller(StatefulSet, owns=(Pod, PersistentVolumeClaim), also={Node: pods_on})
    def stateful_sets(set: Object, world: Snapshot) -> Iterator[Intent]:
        '''Each ordinal has its pod, in order.'''

The decorated name is a ``Controller``: data. It is run by whoever puts it into a list (``app``), called by a test as
the function it is, and stepped by the simulator. Its kinds are followed; a change of

* the primary kind has that object decided about,
* a kind it *owns* the object that controls the changed one,
* a kind it looks at *also* the object of the same name, or those that the given function names,
* a kind it merely *reads* nothing.

``EVERY`` stands for all kinds that the server has, of which only the metadata is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.runtime.intents import Intent
from pilothouse.runtime.snapshot import Snapshot

Decide = Callable[[Object, Snapshot], Iterator[Intent]]

EVERY: Final = KindName("*", "*", "*", "*")
"""All kinds, for controllers that care for none in particular."""


class ReconcileKey(NamedTuple):
    """An object that is to be decided about, there or not."""

    noun: KindName
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.noun.resource} {where}"


Names = Iterable[ReconcileKey | tuple[str, str]]
"""Objects to be decided about: by key, or those of the primary kind by namespace and name."""
Mapper = Callable[[Object, Snapshot], Names]


Heeds = Callable[[Object, Object], bool]
"""Whether a change of an object, before and after, is any of the controller's business."""


def any_change(before: Object, after: Object) -> bool:
    """Every change is."""
    return True


def same_name(changed: Object, world: Snapshot) -> Names:
    """The primary object has the name of the changed one."""
    return ((changed.namespace, changed.name),)


@dataclass(frozen=True, kw_only=True)
class Controller:
    """A decision, and what has to be known to take it."""

    name: str
    primary: KindName
    decide: Decide
    owns: tuple[KindName, ...] = ()
    also: Mapping[KindName, Mapper]
    reads: tuple[KindName, ...] = ()
    standalone: bool = False
    """Does what a real Kubernetes does itself, so it stays off there."""
    condition: str = ""
    """The condition that says on the object when it waits: see ``conditioning``."""
    workers: int = 8
    """How many objects are decided about at once."""
    heeds: Heeds = any_change
    """Changes that it has nothing to do with, such as another heartbeat, are no reason to decide."""
    serial: bool = False
    """Decides about one object at a time, and about each with all that the decisions before it wrote in view."""

    @cached_property
    def nouns(self) -> tuple[KindName, ...]:
        """Every kind it looks at, the primary first."""
        return tuple(dict.fromkeys((self.primary, *self.owns, *self.also, *self.reads)))

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (self.decide.__doc__ or "").strip().partition("\n")[0]

    def __call__(self, one: Object, world: Snapshot) -> list[Intent]:
        """Decide."""
        return list(self.decide(one, world))


def controller(
    primary: KindName,
    *,
    owns: KindName | tuple[KindName, ...] = (),
    also: KindName | Mapping[KindName, Mapper] | None = None,
    reads: KindName | tuple[KindName, ...] = (),
    name: str = "",
    standalone: bool = False,
    condition: str = "",
    workers: int = 8,
    heeds: Heeds = any_change,
    serial: bool = False,
) -> Callable[[Decide], Controller]:
    """Make a controller of a function that decides. Its name is the function's, in dashes, unless given."""

    def declare(decide: Decide) -> Controller:
        return Controller(
            name=name or decide.__name__.replace("_", "-"),
            primary=primary,
            decide=decide,
            owns=_several(owns),
            also={also: same_name} if isinstance(also, KindName) else dict(also or {}),
            reads=_several(reads),
            standalone=standalone,
            condition=condition,
            workers=1 if serial else workers,
            heeds=heeds,
            serial=serial,
        )

    return declare


def _several(nouns: KindName | tuple[KindName, ...]) -> tuple[KindName, ...]:
    return (nouns,) if isinstance(nouns, KindName) else nouns
