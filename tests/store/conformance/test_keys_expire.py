"""Time to live: the key goes by itself, and watchers see an ordinary deletion."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.following import collect

from pilothouse.store.interface import Conflict, Entry, Store


async def test_a_key_goes_when_its_time_is_over(store: Store) -> None:
    created = await store.create("/e/1", b"x", ttl=1)
    assert await store.get("/e/1") == Entry("/e/1", b"x", created, created)
    async with store.watch("/e/", after=created) as batches:
        (change,) = await collect(batches, 1)
    assert change.value is None
    assert change.revision > created
    assert await store.get("/e/1") is None


async def test_an_expired_key_can_be_created_again(store: Store) -> None:
    created = await store.create("/e/1", b"x", ttl=1)
    async with store.watch("/e/", after=created) as batches:
        await collect(batches, 1)
    again = await store.create("/e/1", b"y")
    assert await store.get("/e/1") == Entry("/e/1", b"y", again, again)


async def test_an_expired_key_cannot_be_updated(store: Store) -> None:
    created = await store.create("/e/1", b"x", ttl=1)
    async with store.watch("/e/", after=created) as batches:
        await collect(batches, 1)
    with pytest.raises(Conflict) as caught:
        await store.update("/e/1", b"y", revision=created)
    assert caught.value.current is None


async def test_an_update_without_a_time_to_live_clears_it(store: Store) -> None:
    start = await store.revision()
    kept = await store.create("/e/kept", b"x", ttl=1)
    await store.update("/e/kept", b"y", revision=kept)
    # Written later, so its end is proof that the other's time has passed.
    await store.create("/e/witness", b"x", ttl=1)
    async with store.watch("/e/", after=start) as batches:
        seen = await collect(batches, 4)
    assert [change.key for change in seen if change.value is None] == ["/e/witness"]
    assert await store.get("/e/kept") is not None


async def test_an_update_starts_the_time_anew(store: Store) -> None:
    start = await store.revision()
    short = await store.create("/e/renewed", b"x", ttl=1)
    await store.update("/e/renewed", b"y", revision=short, ttl=3600)
    await store.create("/e/witness", b"x", ttl=1)
    async with store.watch("/e/", after=start) as batches:
        seen = await collect(batches, 4)
    assert [change.key for change in seen if change.value is None] == ["/e/witness"]
    assert await store.get("/e/renewed") is not None


async def test_an_update_may_give_a_lasting_key_an_end(store: Store) -> None:
    created = await store.create("/e/1", b"x")
    updated = await store.update("/e/1", b"y", revision=created, ttl=1)
    async with store.watch("/e/", after=updated) as batches:
        (change,) = await collect(batches, 1)
    assert (change.key, change.value) == ("/e/1", None)
    assert change.revision > updated


async def test_a_key_deleted_before_its_time_is_deleted_once(store: Store) -> None:
    start = await store.revision()
    created = await store.create("/e/1", b"x", ttl=1)
    await store.delete("/e/1", revision=created)
    await store.create("/e/witness", b"x", ttl=1)
    async with store.watch("/e/", after=start) as batches:
        seen = await collect(batches, 4)
    assert [change.key for change in seen if change.value is None] == ["/e/1", "/e/witness"]


async def test_a_key_born_anew_does_not_inherit_the_old_ones_end(store: Store) -> None:
    start = await store.revision()
    created = await store.create("/e/1", b"x", ttl=1)
    await store.delete("/e/1", revision=created)
    await store.create("/e/1", b"y")
    await store.create("/e/witness", b"x", ttl=1)
    async with store.watch("/e/", after=start) as batches:
        seen = await collect(batches, 5)
    assert [change.key for change in seen if change.value is None] == ["/e/1", "/e/witness"]
    assert await store.get("/e/1") is not None


async def test_a_lasting_key_outlives_its_neighbours(store: Store) -> None:
    await store.create("/e/stays", b"x")
    start = await store.revision()
    await asyncio.gather(*(store.create(f"/e/{n}", b"x", ttl=1) for n in range(20)))
    async with store.watch("/e/", after=start) as batches:
        seen = await collect(batches, 40)
    assert sorted(change.key for change in seen if change.value is None) == sorted(
        f"/e/{n}" for n in range(20)
    )
    assert [entry.key for entry in (await store.list("/e/")).entries] == ["/e/stays"]


async def test_a_long_time_to_live_does_not_end_soon(store: Store) -> None:
    start = await store.revision()
    await store.create("/e/long", b"x", ttl=7200)
    await store.create("/e/short", b"x", ttl=1)
    async with store.watch("/e/", after=start) as batches:
        seen = await collect(batches, 3)
    assert [change.key for change in seen if change.value is None] == ["/e/short"]
