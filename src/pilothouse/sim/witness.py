"""Somebody who sees every write, in order, and says at once when something is that must never be.

    witness = Witness(server.store, [no_two_pods_of_one_ordinal])
    await witness.run()                       # raises Violated

An invariant is a function of all objects, called after each write to a kind that it names; it gives a sentence if it does not
hold. It is about what *is* in the store, whoever wrote it, so it does not matter who believes what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from pilothouse.api.nouns import Lease, Noun, noun_of
from pilothouse.api.objects import Object
from pilothouse.store.memory import MemoryStore


class Violated(AssertionError):
    """Something is that must never be."""


class State:
    """All objects, at one revision."""

    def __init__(self) -> None:
        self._objects: dict[str, Object] = {}
        self._kinds: dict[Noun, dict[str, Object]] = {}
        self.revision = 0

    def put(self, key: str, value: bytes | None, revision: int) -> tuple[Object | None, Object | None]:
        """Take in a write. Gives the object before and after."""
        self.revision = revision
        before = self._objects.pop(key, None)
        if before is not None:
            del self._kinds[before.noun][key]
        if value is None:
            return before, None
        tree = msgspec.json.decode(value)
        if not isinstance(tree, dict) or "kind" not in tree:
            return before, None
        tree["metadata"]["resourceVersion"] = str(revision)
        after = Object(noun_of(tree["apiVersion"], tree["kind"]), tree)
        self._objects[key] = after
        self._kinds.setdefault(after.noun, {})[key] = after
        return before, after

    def all(self, noun: Noun, namespace: str = "") -> list[Object]:
        """The objects of a kind."""
        found = self._kinds.get(noun, {}).values()
        return [one for one in found if not namespace or one.namespace == namespace]

    def find(self, noun: Noun, namespace: str, name: str) -> Object | None:
        return next((one for one in self.all(noun, namespace) if one.name == name), None)

    def __iter__(self) -> Iterator[Object]:
        return iter(self._objects.values())


Check = Callable[[State, Object | None, Object | None], str | None]
"""Given all objects, and the one that has just changed before and after; a sentence if it must not be."""


@dataclass(frozen=True)
class Invariant:
    """Something that must hold after every write to these kinds; of none, to any."""

    name: str
    check: Check
    nouns: tuple[Noun, ...] = ()


def invariant(*nouns: Noun) -> Callable[[Check], Invariant]:
    """Make an invariant of a function; its name is the function's."""
    return lambda check: Invariant(check.__name__.replace("_", " "), check, nouns)


class Witness:
    """Follows a store, and judges."""

    def __init__(self, store: MemoryStore, invariants: Sequence[Invariant]) -> None:
        self._store = store
        self._invariants = invariants
        self.state = State()
        self.writes = 0
        """How many there were, leases aside."""
        self.last: str = ""
        """What was written last, leases aside."""

    async def run(self) -> None:
        """Watch until cancelled. Raises ``Violated``."""
        async with self._store.watch("/", after=0) as batches:
            async for batch in batches:
                for change in batch.changes:
                    before, after = self.state.put(change.key, change.value, change.revision)
                    self._judge(before, after)

    def _judge(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        if changed is None:
            return
        if changed.noun != Lease:
            self.writes += 1
            self.last = f"{changed!r}"
        for each in self._invariants:
            if each.nouns and changed.noun not in each.nouns:
                continue
            problem = each.check(self.state, before, after)
            if problem:
                raise Violated(f"{each.name}: {problem} (after the write of {changed!r})")
