"""Coordinates the allocation of service addresses between servers that share a store.

    book = AddressAllocator(store, random)
    objects = ObjectStorage(book.guarding(store), cache)
    with taking(book.turn) as mine:      # a write of services begins
        mine.things.add("10.96.0.7")     # what it takes
        ...                              # its store.create(...) now holds only while the turn lasts

The server that wrote the allocator's key last has the *turn*. A write that allocates is guarded by that key's
revision, so it fails in its own transaction once another server has taken over. A server takes over by one
write and then waits until its cache shows all earlier ones, so nothing is allocated twice and no server waits
for another, dead or alive. Competing servers back off randomly. After a write with unknown outcome the turn
is given up: that write either precedes the next turn and is seen, or fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any

from pilothouse.base.backoff import Backoff
from pilothouse.meta import errors
from pilothouse.store.interface import Conflict, Guard, GuardFailed, Store, StoreError, TooLarge
from pilothouse.store.wrapped_store import WrappedStore

KEY = "/pilothouse/service-addresses"

Thing = str | int
"""An address or a node port."""

_PAUSE = Backoff(first=0.02, factor=2.0, longest=0.5)


class AllocatorUnavailable(Exception):
    """Another server may be allocating addresses, so this write was not made."""


class PendingAllocation:
    """What one write allocates, and in which turn."""

    def __init__(self, turn: Guard | None) -> None:
        self.turn = turn
        self.things: set[Thing] = set()


@contextmanager
def taking(turn: Guard | None) -> Iterator[PendingAllocation]:
    """Allocations within this context belong to one write."""
    mine = PendingAllocation(turn)
    before = _taking.set(mine)
    try:
        yield mine
    finally:
        _taking.reset(before)


def current() -> PendingAllocation:
    """The allocation of the write under way. Raises LookupError outside of one."""
    return _taking.get()


_taking: ContextVar[PendingAllocation] = ContextVar("what the write under way takes")


class AddressAllocator:
    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random
        self._taking_over = asyncio.Lock()
        self.turn: Guard | None = None

    def guarding(self, store: Store) -> Store:
        """The store, with allocating writes guarded; unchanged if this process is its only writer."""
        return store if store.current is not None else AllocatingStore(store, self)

    def give_up(self, turn: Guard) -> None:
        """This turn has ended, or may have."""
        if self.turn is turn:
            self.turn = None

    async def take_over(self, losses: int) -> None:
        """Try to take the turn, after a random pause. Success shows in ``turn``, or at the next write."""
        await asyncio.sleep(self._random.uniform(0, _PAUSE.after(losses)))
        async with self._taking_over:
            if self.turn is not None:
                return
            try:
                held = await self._store.get(KEY)
                if held is None:
                    revision = await self._store.create(KEY, b"{}")
                else:
                    revision = await self._store.update(KEY, b"{}", revision=held.revision)
            except Conflict:
                return
            except StoreError as problem:
                raise errors.unavailable(f"the store does not answer: {problem}") from None
            self.turn = Guard(KEY, revision)


class AllocatingStore(WrappedStore):
    """A store whose allocating writes succeed only while their turn lasts."""

    def __init__(self, inner: Store, book: AddressAllocator) -> None:
        super().__init__(inner)
        self._book = book

    def create(
        self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None
    ) -> Coroutine[Any, Any, int]:
        return self._guarded(guard, lambda guard: self.inner.create(key, value, ttl=ttl, guard=guard))

    def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> Coroutine[Any, Any, int]:
        return self._guarded(
            guard, lambda guard: self.inner.update(key, value, revision=revision, ttl=ttl, guard=guard)
        )

    def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> Coroutine[Any, Any, int]:
        return self._guarded(guard, lambda guard: self.inner.delete(key, revision=revision, guard=guard))

    def _guarded(
        self, guard: Guard | None, write: Callable[[Guard | None], Coroutine[Any, Any, int]]
    ) -> Coroutine[Any, Any, int]:
        mine = _taking.get(None)
        return self._in_turn(mine, guard, write) if mine is not None and mine.things else write(guard)

    async def _in_turn(
        self,
        mine: PendingAllocation,
        guard: Guard | None,
        write: Callable[[Guard | None], Coroutine[Any, Any, int]],
    ) -> int:
        turn = mine.turn
        if turn is None or turn is not self._book.turn:
            raise AllocatorUnavailable
        try:
            return await write(Guard(turn.key, turn.revision, guard))
        except GuardFailed as failure:
            if failure.guard.key != turn.key:
                raise
            self._book.give_up(turn)
            raise AllocatorUnavailable from None
        except (Conflict, TooLarge):
            raise
        except BaseException:
            self._book.give_up(turn)
            raise
