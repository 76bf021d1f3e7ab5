"""Two books on one store, as two servers have them."""

from __future__ import annotations

import random

import pytest
from tests.kit.shared_store import SharedStore

from pilothouse.apiserver.registry.address_allocation import (
    KEY,
    AddressAllocator,
    AllocatorUnavailable,
    taking,
)
from pilothouse.store.interface import Guard, GuardFailed, Store, Unavailable
from pilothouse.store.memory import MemoryStore


@pytest.fixture
def shared() -> SharedStore:
    return SharedStore()


@pytest.fixture
def one(shared: SharedStore) -> AddressAllocator:
    return AddressAllocator(shared, random.Random(1))


@pytest.fixture
def other(shared: SharedStore) -> AddressAllocator:
    return AddressAllocator(shared, random.Random(2))


async def write(
    book: AddressAllocator, store: Store, key: str, *things: str, guard: Guard | None = None
) -> int:
    with taking(book.turn) as mine:
        mine.things.update(things)
        return await book.guarding(store).create(key, b"x", guard=guard)


async def test_what_takes_nothing_needs_no_turn(shared: SharedStore, one: AddressAllocator) -> None:
    assert await write(one, shared, "/a")
    assert await book_revision(shared) == 0


async def test_nothing_is_taken_out_of_turn(shared: SharedStore, one: AddressAllocator) -> None:
    with pytest.raises(AllocatorUnavailable):
        await write(one, shared, "/a", "127.96.0.1")
    assert await shared.get("/a") is None


async def test_a_turn_lasts_until_another_takes_over(
    shared: SharedStore, one: AddressAllocator, other: AddressAllocator
) -> None:
    await one.take_over(0)
    for n in range(3):
        assert await write(one, shared, f"/{n}", "127.96.0.1")
    await other.take_over(0)
    with pytest.raises(AllocatorUnavailable):
        await write(one, shared, "/late", "127.96.0.1")
    assert await shared.get("/late") is None
    assert one.turn is None
    assert await write(other, shared, "/theirs", "127.96.0.1")
    await one.take_over(1)
    assert await write(one, shared, "/again", "127.96.0.1")


async def test_a_write_belongs_to_the_turn_that_it_began_in(
    shared: SharedStore, one: AddressAllocator, other: AddressAllocator
) -> None:
    await one.take_over(0)
    began = one.turn
    await other.take_over(0)
    with pytest.raises(AllocatorUnavailable):
        await write(one, shared, "/lost", "127.96.0.1")
    await one.take_over(1)
    with taking(began) as mine:
        mine.things.add("127.96.0.1")
        with pytest.raises(AllocatorUnavailable):
            await one.guarding(shared).create("/slow", b"x")
    assert await shared.get("/slow") is None


async def test_an_unknown_outcome_ends_the_turn(shared: SharedStore, one: AddressAllocator) -> None:
    await one.take_over(0)
    before = await book_revision(shared)
    shared.silent = True
    with pytest.raises(Unavailable):
        await write(one, shared, "/a", "127.96.0.1")
    shared.silent = False
    with pytest.raises(AllocatorUnavailable):
        await write(one, shared, "/b", "127.96.0.2")
    await one.take_over(1)
    assert await book_revision(shared) > before
    assert await write(one, shared, "/b", "127.96.0.2")


async def test_a_guard_of_ones_own_is_kept_and_told_apart(shared: SharedStore, one: AddressAllocator) -> None:
    await one.take_over(0)
    lease = await shared.create("/lease", b"x")
    assert await write(one, shared, "/a", "127.96.0.1", guard=Guard("/lease", lease))
    with pytest.raises(GuardFailed) as failed:
        await write(one, shared, "/b", "127.96.0.2", guard=Guard("/lease", lease + 1))
    assert failed.value.guard.key == "/lease"
    assert one.turn is not None


async def test_a_store_with_one_writer_stays_as_it_is() -> None:
    alone = MemoryStore()
    assert AddressAllocator(alone, random.Random(1)).guarding(alone) is alone


async def book_revision(store: Store) -> int:
    found = await store.get(KEY)
    return found.revision if found else 0
