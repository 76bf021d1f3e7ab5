"""Controllers: a decision function and the kinds that it reads.

    @controller(StatefulSet, owns=(Pod, PersistentVolumeClaim), also={Node: pods_on})
    def stateful_sets(set: Object, world: Snapshot) -> Iterator[Intent]: ...

The decorated name is a ``Controller``: a test calls it like the function. Its kinds are cached. A change
reconciles, of the primary kind: that object; of a kind that it *owns*: the changed object's controller; of a
kind in *also*: the object of the same name, or those that the mapper returns; of a kind that it only *reads*:
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.runtime.intents import Intent
from pilothouse.runtime.sampled_watch import WatchFactory
from pilothouse.runtime.snapshot import Snapshot

Decide = Callable[[Object, Snapshot], Iterator[Intent]]

EVERY: Final = KindName("*", "*", "*", "*")
"""All kinds that the server has."""


class ReconcileKey(NamedTuple):
    """The kind, namespace and name of an object to reconcile; the object may be gone."""

    noun: KindName
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.noun.resource} {where}"


Names = Iterable[ReconcileKey | tuple[str, str]]
"""Objects to reconcile: by key, or those of the primary kind by namespace and name."""
Mapper = Callable[[Object, Snapshot], Names]


Predicate = Callable[[Object, Object], bool]
"""Whether the change of an object, before and after, triggers a reconcile."""


def any_change(before: Object, after: Object) -> bool:
    """Every change triggers."""
    return True


def same_name(changed: Object, world: Snapshot) -> Names:
    """The primary object has the name of the changed one."""
    return ((changed.namespace, changed.name),)


@dataclass(frozen=True, kw_only=True)
class Controller:
    """A decision function, and the kinds that it reads."""

    name: str
    primary: KindName
    decide: Decide
    owns: tuple[KindName, ...] = ()
    also: Mapping[KindName, Mapper]
    reads: tuple[KindName, ...] = ()
    optional: frozenset[KindName] = frozenset()
    """Kinds that the server need not serve; without it there are no objects."""
    standalone: bool = False
    """Kubernetes has this controller itself, so it stays off there."""
    condition: str = ""
    """The type of the condition that says on the object that it waits: see ``reconcile_condition``."""
    workers: int = 8
    """How many objects are reconciled at once."""
    predicate: Predicate = any_change
    """Filters changes that do not matter, such as a heartbeat."""
    serial: bool = False
    """Reconciles one object at a time, with everything that earlier decisions wrote in view."""
    sampled: WatchFactory | None = None
    """Makes the watch that measures its objects: see ``sampled_watch``."""
    impersonate: str = ""
    """The user that its writes are made as; the process's own if empty. Events and Decisions are written by
    the process itself."""

    @cached_property
    def nouns(self) -> tuple[KindName, ...]:
        """Every kind that it reads, the primary first."""
        return tuple(dict.fromkeys((self.primary, *self.owns, *self.also, *self.reads)))

    def __call__(self, one: Object, world: Snapshot) -> list[Intent]:
        return list(self.decide(one, world))


def controller(
    primary: KindName,
    *,
    owns: KindName | tuple[KindName, ...] = (),
    also: KindName | Mapping[KindName, Mapper] | None = None,
    reads: KindName | tuple[KindName, ...] = (),
    optional: frozenset[KindName] = frozenset(),
    name: str = "",
    standalone: bool = False,
    condition: str = "",
    workers: int = 8,
    predicate: Predicate = any_change,
    serial: bool = False,
    sampled: WatchFactory | None = None,
    impersonate: str = "",
) -> Callable[[Decide], Controller]:
    """Make a controller of a decision function. Its name is the function's, with dashes, unless given."""

    def declare(decide: Decide) -> Controller:
        return Controller(
            name=name or decide.__name__.replace("_", "-"),
            primary=primary,
            decide=decide,
            owns=_several(owns),
            also={also: same_name} if isinstance(also, KindName) else dict(also or {}),
            reads=_several(reads),
            optional=optional,
            standalone=standalone,
            condition=condition,
            workers=1 if serial else workers,
            predicate=predicate,
            serial=serial,
            sampled=sampled,
            impersonate=impersonate,
        )

    return declare


def _several(nouns: KindName | tuple[KindName, ...]) -> tuple[KindName, ...]:
    return (nouns,) if isinstance(nouns, KindName) else nouns
