"""Compaction: what was overwritten goes, what stands stays, and asking for what is gone says so."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.following import brief, collect, next_batch

from pilothouse.store.interface import Compacted, Entry, FutureRevision, Store


async def test_the_present_survives(store: Store) -> None:
    created = await store.create("/a/1", b"old")
    updated = await store.update("/a/1", b"new", revision=created)
    await store.compact(updated)
    assert await store.get("/a/1") == Entry("/a/1", b"new", updated, created)
    assert (await store.list("/a/")).entries == [Entry("/a/1", b"new", updated, created)]


async def test_a_list_below_it_is_refused(store: Store) -> None:
    created = await store.create("/a/1", b"old")
    updated = await store.update("/a/1", b"new", revision=created)
    await store.compact(updated)
    with pytest.raises(Compacted) as caught:
        await store.list("/a/", revision=created)
    assert caught.value.revision == created
    assert caught.value.oldest > created


async def test_a_list_at_it_is_served(store: Store) -> None:
    first = await store.create("/a/1", b"1")
    second = await store.update("/a/1", b"2", revision=first)
    await store.update("/a/1", b"3", revision=second)
    await store.compact(second)
    page = await store.list("/a/", revision=second)
    assert page.entries == [Entry("/a/1", b"2", second, first)]


async def test_a_list_above_it_is_served(store: Store) -> None:
    first = await store.create("/a/1", b"1")
    second = await store.update("/a/1", b"2", revision=first)
    await store.delete("/a/1", revision=second)
    await store.compact(first)
    assert [entry.value for entry in (await store.list("/a/", revision=second)).entries] == [b"2"]


async def test_the_next_page_of_a_compacted_list_is_refused(store: Store) -> None:
    for n in range(4):
        await store.create(f"/a/{n}", b"x")
    page = await store.list("/a/", limit=2)
    later = await store.create("/b", b"x")
    await store.compact(later)
    with pytest.raises(Compacted):
        await store.list("/a/", limit=2, after=page.entries[-1].key, revision=page.revision)


async def test_a_watch_from_below_it_is_refused(store: Store) -> None:
    start = await store.create("/a/1", b"1")
    await store.create("/a/2", b"2")
    last = await store.create("/a/3", b"3")
    await store.compact(last)
    async with store.watch("/a/", after=start) as batches:
        with pytest.raises(Compacted):
            await collect(batches, 1)


async def test_a_watch_from_just_below_it_is_refused(store: Store) -> None:
    await store.create("/a/1", b"1")
    last = await store.create("/a/2", b"2")
    await store.compact(last)
    async with store.watch("/a/", after=last - 1) as batches:
        with pytest.raises(Compacted):
            await collect(batches, 1)


async def test_a_watch_from_it_goes_on(store: Store) -> None:
    created = await store.create("/a/1", b"1")
    await store.compact(created)
    async with store.watch("/a/", after=created) as batches:
        updated = await store.update("/a/1", b"2", revision=created)
        (change,) = await collect(batches, 1)
        assert (change.revision, change.value) == (updated, b"2")


async def test_a_watch_from_it_finds_the_history_above_it_whole(store: Store) -> None:
    first = await store.create("/a/1", b"1")
    second = await store.update("/a/1", b"2", revision=first)
    third = await store.update("/a/1", b"3", revision=second)
    fourth = await store.delete("/a/1", revision=third)
    await store.compact(second)
    async with store.watch("/a/", after=second) as batches:
        seen = await collect(batches, 2)
    assert [(c.revision, c.value) for c in seen] == [(third, b"3"), (fourth, None)]


async def test_an_open_watch_that_keeps_up_does_not_notice(store: Store) -> None:
    revision = await store.create("/a/1", b"0")
    async with store.watch("/a/", after=revision) as batches:
        for n in range(1, 6):
            revision = await store.update("/a/1", str(n).encode(), revision=revision)
            assert brief(await collect(batches, 1)) == [("/a/1", str(n).encode())]
            await store.compact(revision)
        revision = await store.delete("/a/1", revision=revision)
        assert brief(await collect(batches, 1)) == [("/a/1", None)]


async def test_an_idle_watch_survives_it(store: Store) -> None:
    start = await store.create("/a/1", b"1")
    async with store.watch("/a/", after=start) as batches:
        revision = await store.create("/b/1", b"x")
        await store.progress()
        while (await next_batch(batches)).revision < revision:
            pass
        await store.compact(revision)
        written = await store.create("/a/2", b"2")
        assert [change.revision for change in await collect(batches, 1)] == [written]


async def test_writes_go_on_as_before(store: Store) -> None:
    created = await store.create("/a/1", b"1")
    await store.compact(created)
    updated = await store.update("/a/1", b"2", revision=created)
    assert updated == created + 1
    await store.delete("/a/1", revision=updated)
    assert await store.create("/a/1", b"3") == updated + 2


async def test_a_revision_is_not_used_again_when_its_tombstone_is_gone(store: Store) -> None:
    created = await store.create("/a/1", b"1")
    deleted = await store.delete("/a/1", revision=created)
    await store.compact(deleted)
    assert await store.create("/a/1", b"2") > deleted


async def test_compacting_twice_is_no_error(store: Store) -> None:
    revision = await store.create("/a/1", b"1")
    await store.compact(revision)
    await store.compact(revision)
    assert await store.get("/a/1") is not None


async def test_compacting_to_an_older_revision_changes_nothing(store: Store) -> None:
    first = await store.create("/a/1", b"1")
    second = await store.update("/a/1", b"2", revision=first)
    third = await store.update("/a/1", b"3", revision=second)
    await store.compact(second)
    await store.compact(first)
    with pytest.raises(Compacted):
        await store.list("/a/", revision=first)
    assert (await store.list("/a/", revision=second)).entries[0].value == b"2"
    assert (await store.list("/a/", revision=third)).entries[0].value == b"3"


async def test_compacting_to_zero_changes_nothing(store: Store) -> None:
    first = await store.create("/a/1", b"1")
    await store.update("/a/1", b"2", revision=first)
    await store.compact(0)
    assert (await store.list("/a/", revision=first)).entries[0].value == b"1"


async def test_compacting_the_future_is_refused(store: Store) -> None:
    current = await store.create("/a/1", b"1")
    with pytest.raises(FutureRevision):
        await store.compact(current + 1000)


async def test_compacting_while_many_write_loses_no_key_and_no_event(store: Store) -> None:
    async def churn(key: str) -> bytes:
        revision = await store.create(key, b"0")
        for n in range(1, 30):
            revision = await store.update(key, str(n).encode(), revision=revision)
        return b"29"

    async def compact(done: asyncio.Event) -> None:
        while not done.is_set():
            await store.compact(max(await store.revision() - 20, 0))
            await asyncio.sleep(0.01)

    done = asyncio.Event()
    start = await store.revision()

    async def follow() -> list[int]:
        async with store.watch("/c/", after=start) as batches:
            ready.set()
            return [change.revision for change in await collect(batches, 300)]

    ready = asyncio.Event()
    following = asyncio.create_task(follow())
    await ready.wait()
    compacting = asyncio.create_task(compact(done))
    await asyncio.gather(*(churn(f"/c/{n}") for n in range(10)))
    done.set()
    await compacting
    assert {entry.value for entry in (await store.list("/c/")).entries} == {b"29"}
    try:
        seen = await following
    except Compacted:
        # A reader that fell behind the compaction is told so; it is never fed with holes.
        return
    assert seen == sorted(set(seen))
    assert len(seen) == 300
